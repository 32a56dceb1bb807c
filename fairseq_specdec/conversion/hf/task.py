"""The task of fairseq that a converted model has, as its checkpoint holds it and as flags."""

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from fairseq_specdec.checkpoints.own_task import OwnTask

from .families import Converted
from .families.mbart import SEVERAL

Pair = Sequence[str | None]


def task_settings(converted: Converted, pair: Pair) -> dict[str, Any]:
    """Settings of the task. ``pair``: source and target language; None for one that is open."""
    text = converted.text
    settings = {
        "task": text.task, "source_lang": pair[0], "target_lang": pair[1], "data": ".",
        "left_pad_source": False, "left_pad_target": False, **text.task_settings,
    }  # fmt: skip
    languages = _by_id(converted)
    if text.task == SEVERAL:
        settings["lang_pairs"] = [] if None in pair else ["-".join(map(str, pair))]
        settings["langs"] = languages
    elif languages:
        settings["langs"] = ",".join(languages)
    return settings


def task_flags(converted: Converted, pair: Pair, ours: bool) -> str:
    """The flags that decode a pair, with this project's task (``ours``) or with fairseq's own."""
    settings = task_settings(converted, pair)
    if "lang_pairs" in settings:
        settings["langs"] = None  # the dictionary holds all of them
    flags = OwnTask({"args": Namespace(**settings)}).flags(ours)
    return f"{flags} --source-lang {pair[0]} --target-lang {pair[1]}"


def _by_id(converted: Converted) -> list[str]:
    """The languages of a model in the order of their tokens."""
    vocabulary = converted.vocabularies[0]
    ids = vocabulary.ids()
    return sorted(vocabulary.languages, key=lambda code: ids[vocabulary.languages[code]])
