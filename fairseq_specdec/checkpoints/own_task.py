"""The task that a checkpoint was trained with, and the flags that decode with it."""

import shlex
from typing import Any

from omegaconf import OmegaConf

from fairseq_specdec.io.flag_values import flag_of

from .content import get_setting, settings_of

# Of tasks that add symbols to their dictionaries: the flags that say which.
_FLAGS = {
    "multilingual_translation": ("lang_pairs", "encoder_langtok", "decoder_langtok"),
    "translation_from_pretrained_bart": ("langs", "prepend_bos"),
    "translation_moe": ("method", "num_experts", "mean_pool_gating_network"),
    "translation_multi_simple_epoch": (
        "lang_pairs", "langs", "lang_dict", "source_dict", "target_dict", "encoder_langtok",
        "decoder_langtok", "lang_tok_style", "lang_tok_replacing_bos_eos", "fixed_dictionary",
    ),
}  # fmt: skip
# Those that put tokens of languages, or <s>, into a sentence.
_TOKENS = ("encoder_langtok", "decoder_langtok", "lang_tok_replacing_bos_eos", "prepend_bos")
# Their values where nobody asked for another.
_UNSAID = {"lang_tok_style": "multilingual"}
STOCK = "translation"
SUFFIX = "_specdec"


class OwnTask:
    """The task of a checkpoint's training.

    Args:
        state: the checkpoint's content; whatever it lacks is not known.

    Attributes:
        name: fairseq's task, as ``--task`` takes it: of one that decodes with this project, the
            task that it was made of; ``translation`` where the checkpoint names none.
    """

    def __init__(self, state: Any) -> None:
        state = state if isinstance(state, dict) else {}
        args = state.get("args")  # with the settings of the model too, whose name is _name
        self._settings = settings_of(state if args is None else {"args": args}, "task")
        name = self._get("_name" if args is None else "task")
        if getattr(_registered(name), "decodes_speculatively", False):
            stock = name[: -len(SUFFIX)] if name.endswith(SUFFIX) else STOCK
            name = stock if _registered(stock) is not None else STOCK
        self.name = name if isinstance(name, str) else STOCK

    def _get(self, name: str) -> Any:
        value = get_setting(self._settings, name)
        return OmegaConf.to_container(value) if OmegaConf.is_config(value) else value

    @property
    def decodes_here(self) -> bool:
        """Whether this project has a task that does the same."""
        return _registered(self.name + SUFFIX) is not None

    def reverses(self, task: Any) -> bool:
        """Whether it translated one pair of languages, and ``task`` goes the other way."""
        sides = ("source_lang", "target_lang")
        own = [self._get(side) for side in sides]
        now = [_setting(task, side) for side in sides]
        several = self._get("lang_pairs")
        return not several and None not in own and own[0] != own[1] and own == now[::-1]

    def differences(self, task: Any) -> list[str]:
        """What a task of this project does otherwise than training did with tokens of languages,
        with the remedies."""
        known = _registered(self.name)
        same = known is not None and isinstance(task, known)
        flags, texts = _FLAGS.get(self.name, ()) if same else (), []
        for name in [name for name in _TOKENS if name in flags]:
            here, flag = _setting(task, name) or "", flag_of(name)
            there = self._get(name)
            there = here if there is None else there or ""
            value = "" if there is True else f" {there}"
            remedy = f"had {flag}{value}; pass it" if there else "was without it; leave it out"
            texts += [f"{flag}: training {remedy}"] if there != here else []
        return texts + (self._order(task) if "langs" in flags else [])

    def _order(self, task: Any) -> list[str]:
        """The same of the languages whose tokens the task adds to its dictionary."""
        langs = _listed(self._get("langs"))
        if not langs and not self._get("lang_dict"):
            pairs = _listed(self._get("lang_pairs"))
            langs = sorted({each for pair in pairs for each in pair.split("-")})
        words = task.target_dictionary
        held = set(words.symbols[: getattr(words, "words_in_file", None)])
        there, here = (
            [each for each in names if not held & {f"__{each}__", f"[{each}]"}]
            for names in (langs, task.langs)
        )
        if not langs or there == here:
            return []
        text = f"--langs: {','.join(here)} is not training's order, so that languages are taken for"
        return [f"{text} others; pass --langs {','.join(langs)}"]

    def flags(self, ours: bool = False) -> str:
        """The words of a command line that decode with it, as far as the checkpoint has them."""
        words = ["--task", self.name + SUFFIX if ours and self.decodes_here else self.name]
        if _registered(self.name) is None:
            words[:0] = ["--user-dir", "FOLDER_THAT_REGISTERS_IT"]
        for name in _FLAGS.get(self.name, ()):
            value = self._get(name)
            if isinstance(value, (list, tuple)):
                value = ",".join(map(str, value))
            if value is True:
                words.append(flag_of(name))
            elif value and value != _UNSAID.get(name):
                words += [flag_of(name), str(value)]
        return " ".join(map(shlex.quote, words))


def _listed(names: Any) -> list[str]:
    """Names that a flag holds in one string or in a list."""
    return names.split(",") if isinstance(names, str) else list(names or ())


def _setting(task: Any, name: str) -> Any:
    """A setting of a task, old or new."""
    settings = getattr(task, "cfg", None) or getattr(task, "args", None)
    return getattr(settings, name, None)


def _registered(name: Any) -> type | None:
    from fairseq.tasks import TASK_REGISTRY

    kind: type | None = TASK_REGISTRY.get(name) if isinstance(name, str) else None
    return kind
