"""fairseq's own flags and data that would end in a traceback of its libraries are refused first."""

from __future__ import annotations

import argparse
import ast
import os
from typing import Any

import numpy as np
from omegaconf import OmegaConf

from fairseq_specdec.checkpoints.content import get_setting, set_setting
from fairseq_specdec.commands.in_fairseq import DECODING, fairseq_command
from fairseq_specdec.decoding.generation_flags import check_generation_flags
from fairseq_specdec.errors import MissingFileError, UsageError
from fairseq_specdec.io.flag_values import flag_of

_SKIP = "--skip-invalid-size-inputs-valid-test"
_FILES = ("sentencepiece_model", "bpe_codes", "bpe_merges", "bpe_vocab")


def check_command_line() -> None:
    """Before any file of a decoding command is read: flags that fairseq itself reads, later."""
    if fairseq_command() not in DECODING:
        return
    parser = argparse.ArgumentParser(add_help=False)
    for name in ("--lm-path", "--replace-unk", "--model-overrides"):
        parser.add_argument(name, nargs="?", const=True)
    asked, _ = parser.parse_known_args()
    check_generation_flags(asked, "greedy")  # as every strategy
    if asked.model_overrides is None:
        return
    try:
        overrides = ast.literal_eval(str(asked.model_overrides))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        overrides = None
    if not isinstance(overrides, dict) or not all(isinstance(each, str) for each in overrides):
        remedy = "give settings by name, as \"{'dropout': 0.0}\""
        field = f"--model-overrides {asked.model_overrides}"
        raise UsageError(field, "is no dictionary of settings", remedy)


def take_languages(tokenizer: Any, flags: Any) -> None:
    """A tokenizer's languages are those of the data, which --source-lang and --target-lang name."""
    for side in ("source_lang", "target_lang"):
        if OmegaConf.is_config(tokenizer) and side in tokenizer and getattr(flags, side, None):
            set_setting(tokenizer, **{side: getattr(flags, side)})


def check_bpe_files(bpe: Any) -> None:
    """Refuse a BPE whose file is not named or not there."""
    for name in _FILES if OmegaConf.is_config(bpe) else ():
        if OmegaConf.is_missing(bpe, name):
            raise UsageError(flag_of(name), "missing, and --bpe reads it", "name the file")
        path = get_setting(bpe, name)
        if path is not None and "://" not in path and not os.path.isfile(path):
            raise MissingFileError(f"{flag_of(name)} {path}", "no such file")


def unusable_bpe(bpe: Any, error: Exception) -> UsageError:
    """What is said of a BPE whose library cannot read its files."""
    kind, text = get_setting(bpe, "_name"), str(error)[:200]
    return UsageError(f"--bpe {kind}", f"its files cannot be used ({text})", "copy them again")


def check_lengths(dataset: Any, indices: Any, most: Any, skip: bool, max_tokens: Any) -> None:
    """Refuse sentences that fit no batch.

    Args:
        indices: of the sentences.
        most: tokens that the task and the model take, as fairseq gives them.
        skip: whether longer sentences are left out.
        max_tokens: of a batch; None for any number.
    """
    fitting, ignored = dataset.filter_indices_by_size(indices, most)
    if len(ignored) and not skip:
        size, index = dataset.size(ignored[0]), ignored[0]
        problem = f"has {size} tokens (source, target), and the model takes {most}"
        raise UsageError(f"sentence {index}", problem, f"shorten it, or skip such by {_SKIP}")
    if len(ignored) and not len(fitting) and fairseq_command() == DECODING[0]:
        raise UsageError(_SKIP, f"leaves out all sentences; the model takes {most} tokens")
    try:
        lengths = dataset.num_tokens_vec(np.asarray(fitting)) if max_tokens else []
    except NotImplementedError:
        return
    if len(lengths) and max(lengths) > max_tokens:
        longest = int(np.argmax(lengths))
        problem = f"sentence {fitting[longest]} has {lengths[longest]}"
        remedy = f"pass --max-tokens {lengths[longest]} or more"
        raise UsageError(f"--max-tokens {max_tokens}", problem, remedy)
