"""What a converted model is used with: its task of fairseq, Python, a server, commands."""

import os
import shlex
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import fairseq_specdec
from fairseq_specdec.checkpoints.own_task import OwnTask
from fairseq_specdec.io.flag_values import flag_of

from .families import SEVERAL
from .generation import USUAL_LENGTH
from .loader import Loader


def task_settings(converted: Loader, pair: Sequence[str | None]) -> dict[str, Any]:
    """Settings of the task. ``pair``: source and target language; None for one that is open."""
    text, (tokens, _, codes) = converted.text, converted.vocabularies[0]
    settings = {
        "task": text.task, "source_lang": pair[0], "target_lang": pair[1], "data": ".",
        "left_pad_source": False, "left_pad_target": False, **text.task_settings,
    }  # fmt: skip
    ids = {token: i for i, token in tokens.items()}
    languages = sorted(codes, key=lambda code: ids[codes[code]])
    if text.task == SEVERAL:
        settings["lang_pairs"] = [] if None in pair else ["-".join(map(str, pair))]
        settings["langs"] = languages
    elif languages:
        settings["langs"] = ",".join(languages)
    return settings


def commands(
    converted: Loader, out: str, pair: Sequence[str | None], listed: str | None = None
) -> str:
    """What to type, for users of transformers. ``listed``: file for ``--vocabulary-list``."""
    languages = sorted(converted.vocabularies[0].languages)
    place, named, given = shlex.quote(out), "", ""
    if languages:
        pair = (pair[0] or languages[0], pair[1] or languages[-1])
        named = f" --source-lang {pair[0]} --target-lang {pair[1]}"
        given = f", source_lang={pair[0]!r}, target_lang={pair[1]!r}"
    list_flag = "" if listed is None else f" --vocabulary-list {shlex.quote(listed)}"
    given += "" if listed is None else f", vocabulary_list={listed!r}"
    parts = [
        "In Python:\n  from fairseq_specdec.hub import SpeculativeTranslator\n"
        f"  translator = SpeculativeTranslator.from_pretrained({out!r}{given})\n"
        '  print(translator.translate("..."))',
        f"As a server:\n  specdec-serve --path {place}{named}{list_flag}",
    ]
    if languages and "-" in f"{pair[0]}{pair[1]}":
        parts.append("fairseq's commands take no language with a hyphen: they split pairs at it.")
    else:
        parts.append(_in_fairseq(converted, place, pair, list_flag))
        parts.append(
            f"Faster, with a drafter made of plain text (mono/train.{pair[0]}, a sentence a line, "
            f"and a few hundred lines in mono/valid.{pair[0]}):\n"
            f"  specdec-accelerate {place} --out {place}-fast{named} \\\n"
            "      --trainpref mono/train --validpref mono/valid"
        )
    if "<s>" in converted.text.source:
        parts.append("The model reads <s> before a sentence: fairseq's commands take it from "
                     "prepared text only (docs/huggingface.md).")  # fmt: skip
    length = converted.generation.flags["max_len_b"]
    if length < USUAL_LENGTH:
        parts.append(f"Outputs end at {length} tokens, as with transformers, whose own limit is "
                     f"{USUAL_LENGTH}: pass max_len_b or --max-len-b for longer ones.")  # fmt: skip
    return "\n\n".join([*parts, ""])


def _in_fairseq(converted: Loader, place: str, pair: Sequence[str | None], list_flag: str) -> str:
    """fairseq-interactive with this project's task."""
    text, settings = converted.text, task_settings(converted, pair)
    models = [name for name in text.files if name.endswith((".spm", ".model"))]
    split = f"--bpe sentencepiece --sentencepiece-model {place}/{models[0]}" if models else ""
    if text.byte_level:
        files = f"--gpt2-encoder-json {place}/encoder.json --gpt2-vocab-bpe {place}/vocab.bpe"
        split = f"--bpe gpt2 {files}"
    if "lang_pairs" in settings:
        settings["langs"] = None  # the dictionary holds all of them
    task = OwnTask({"args": Namespace(**settings)}).flags(ours=True)
    flags = {"beam": converted.generation.beam, "max_len_a": 0, **converted.generation.flags}
    package = os.path.dirname(os.path.abspath(fairseq_specdec.__file__))
    words = [
        f"fairseq-interactive {place} --path {place}/verifier.pt --user-dir {shlex.quote(package)}",
        f"{task} --source-lang {pair[0]} --target-lang {pair[1]}",
        split,
        " ".join(f"{flag_of(name)} {value}" for name, value in flags.items()) + list_flag,
    ]
    read = "plain text" if split else "sentences as their pieces"
    return (
        f"With fairseq's commands ({read}, one a line, from standard input; --task {text.task} is "
        "fairseq's own decoding):\n  " + " \\\n      ".join(filter(None, words))
    )
