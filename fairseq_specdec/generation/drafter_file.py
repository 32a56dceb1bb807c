"""Reading a drafter's checkpoint, and refusing what is none."""

from __future__ import annotations

import os
from typing import Any, Optional

from fairseq import checkpoint_utils
from fairseq.data import data_utils
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_specdec.models.block_decoder import BlockDecoder


def load_drafter(path: Optional[str], src_dict: Any, tgt_dict: Any) -> Any:
    """Load a drafter checkpoint.

    The model is built by a plain translation task over the same dictionaries: the decoding task
    would load a drafter of its own.

    Raises:
        ValueError: no path, no such file, unreadable, not a drafter, or of other dictionaries.
    """
    if not path:
        raise ValueError("--drafter-path: this strategy needs a drafter; give its checkpoint")
    if not os.path.isfile(path):
        raise ValueError(f"--drafter-path: no such file: {path}")
    try:
        state = checkpoint_utils.load_checkpoint_to_cpu(path)
        if not state.get("model") or not (state.get("cfg") or state.get("args")):
            raise KeyError("no model in it")
    except Exception as error:
        raise ValueError(
            f"--drafter-path: {path} cannot be read as a fairseq checkpoint "
            f"({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}); "
            "is the file complete?"
        ) from error
    weights = state["model"]
    if "decoder.mask_embedding" not in weights:
        raise ValueError(
            f"--drafter-path: {path} is no block drafter (it has no [MASK] embedding); "
            "were --path and --drafter-path swapped?"
        )
    for side, dictionary in (("encoder", src_dict), ("decoder", tgt_dict)):
        rows = weights[f"{side}.embed_tokens.weight"].size(0)
        if rows != len(dictionary):
            raise ValueError(
                f"--drafter-path: its {side} dictionary has {rows} symbols, the verifier's "
                f"{len(dictionary)}; train the drafter on the verifier's dict.txt"
            )
    _check_symbols(path, state, src_dict, tgt_dict)
    task = TranslationTask(TranslationConfig(), src_dict, tgt_dict)
    models, _ = checkpoint_utils.load_model_ensemble([path], task=task, state=state)
    if not isinstance(models[0].decoder, BlockDecoder):
        raise ValueError(f"--drafter-path: {path} holds a {type(models[0]).__name__}, no drafter")
    return models[0]


def _check_symbols(path: str, state: Any, src_dict: Any, tgt_dict: Any) -> None:
    """Compare the dictionaries that the drafter was trained with, where they are still there.

    A checkpoint holds no dictionary, only the folder that it came from; dictionaries of one size
    and other symbols can be told apart only by that.
    """
    cfg = (state.get("cfg") or {}).get("task") or state.get("args")

    def setting(name: str) -> str:
        value = cfg.get(name) if hasattr(cfg, "get") else getattr(cfg, name, None)
        return str(value or "")

    folder = setting("data").split(os.pathsep)[0]
    # A relative folder was relative to wherever the drafter was trained.
    if not os.path.isabs(folder) or not os.path.isdir(folder):
        return
    found = data_utils.infer_language_pair(folder)
    names = [setting("source_lang") or found[0], setting("target_lang") or found[1]]
    for language, dictionary in zip(names, (src_dict, tgt_dict)):
        file = os.path.join(folder, f"dict.{language}.txt")
        if os.path.isfile(file):
            if TranslationTask.load_dictionary(file).symbols != dictionary.symbols:
                raise ValueError(
                    f"--drafter-path: {path} was trained with {file}, whose symbols differ from "
                    "those of the verifier's dictionary; train the drafter on the verifier's "
                    "dict.txt"
                )
