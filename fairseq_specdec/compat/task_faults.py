"""Faults of fairseq's tasks that keep them from decoding."""

import re
from typing import Any

from .patch import fixes

_MBART = "fairseq.tasks.translation_from_pretrained_bart.TranslationFromPretrainedBARTTask"
_MULTILINGUAL = "fairseq.tasks.translation_multi_simple_epoch.TranslationMultiSimpleEpochTask"


@fixes(_MBART + ".__init__")
def give_mbart_its_args(original: Any, task: Any, args: Any, *rest: Any, **more: Any) -> None:
    """Let ``--task translation_from_pretrained_bart`` load data and decode.

    Fault: it reads ``self.args``, which its base class has not set since 0.12.1 (fairseq issues
    3169 and 4479). Versions: 0.12.1 to today's main.
    """
    original(task, args, *rest, **more)
    if getattr(task, "args", None) is None:
        task.args = args


@fixes(
    "fairseq.tasks.speech_to_text.SpeechToTextTask.build_generator",
    _MULTILINGUAL + ".build_generator",
)
def take_the_hubs_arguments(original: Any, task: Any, *args: Any, **more: Any) -> Any:
    """Let models of multilingual and speech tasks translate through fairseq's hub.

    Fault: the hub passes ``prefix_allowed_tokens_fn`` to every task's ``build_generator``, and
    these do not take it. Versions: 0.12.1 to today's main.
    """
    if more.get("prefix_allowed_tokens_fn") is None:
        more.pop("prefix_allowed_tokens_fn", None)
    return original(task, *args, **more)


@fixes("fairseq.dataclass.utils.override_module_args")
def leave_languages_to_the_data(original: Any, args: Any) -> tuple[list[str], list[str]]:
    """Let ``--tokenizer moses`` go without ``-s`` and ``-t``, which the data's names say.

    Fault: fairseq writes the languages into the tokenizer's settings, where Hydra takes no None
    ("field 'tokenizer.source_lang' is not Optional"). Versions: all.
    """
    lines, deleted = original(args)
    return [each for each in lines if not re.match(r"tokenizer\.\w+_lang=null", each)], deleted
