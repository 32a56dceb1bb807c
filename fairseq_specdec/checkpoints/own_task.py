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
    """The task of a checkpoint's training. ``state``: the checkpoint's content; whatever it lacks
    is not known. ``name``: fairseq's task, as ``--task`` takes it: of one that decodes with this
    project, the task that it was made of; ``translation`` where the checkpoint names none."""

    def __init__(self, state: Any) -> None:
        state = state if isinstance(state, dict) else {}
        args = state.get("args")  # with the settings of the model too, whose name is _name
        self._settings = settings_of(state if args is None else {"args": args}, "task")
        name = self.get("_name" if args is None else "task")
        if getattr(_registered(name), "decodes_speculatively", False):
            stock = name[: -len(SUFFIX)] if name.endswith(SUFFIX) else STOCK
            name = stock if _registered(stock) is not None else STOCK
        self.name = name if isinstance(name, str) else STOCK

    def get(self, name: str) -> Any:
        """A setting in plain values; None where the checkpoint has none."""
        value = get_setting(self._settings, name)
        return OmegaConf.to_container(value) if OmegaConf.is_config(value) else value

    def listed(self, name: str) -> list[str]:
        """Names that a setting holds in one string or in a list."""
        value = self.get(name)
        return value.split(",") if isinstance(value, str) else list(value or ())

    def languages(self) -> list[str] | None:
        """In the order of their tokens; None where the settings do not say, [] without tokens."""
        if self.get("lang_pairs") is None:  # one pair
            return self.listed("langs")
        pairs = {language for pair in self.listed("lang_pairs") for language in pair.split("-")}
        if self.get("lang_tok_style") is None:  # multilingual_translation
            has = self.get("encoder_langtok") is not None or self.get("decoder_langtok")
            return sorted(pairs) if has else []
        return None if self.get("lang_dict") else self.listed("langs") or sorted(pairs)

    @property
    def decodes_here(self) -> bool:
        """Whether this project has a task that does the same."""
        return _registered(self.name + SUFFIX) is not None

    def reverses(self, task: Any) -> bool:
        """Whether it translated one pair of languages, and ``task`` goes the other way."""
        sides = ("source_lang", "target_lang")
        own, now = [self.get(side) for side in sides], [_setting(task, side) for side in sides]
        several = self.get("lang_pairs")
        return not several and None not in own and own[0] != own[1] and own == now[::-1]

    def differences(self, task: Any) -> list[str]:
        """What a task of this project does otherwise than training did with tokens of languages,
        with the remedies."""
        known, texts = _registered(self.name), []
        if known is None or not isinstance(task, known):
            return []
        flags = _FLAGS.get(self.name, ())
        for name in [name for name in _TOKENS if name in flags]:
            here, there, flag = _setting(task, name) or "", self.get(name), flag_of(name)
            there = here if there is None else there or ""
            value = "" if there is True else f" {there}"
            remedy = f"had {flag}{value}; pass it" if there else "was without it; leave it out"
            texts += [f"{flag}: training {remedy}"] if there != here else []
        trained = self.languages() if "langs" in flags else None
        words = task.target_dictionary
        held = set(words.symbols[: getattr(words, "words_in_file", None)])
        order, now = (
            [each for each in names or () if not held & {f"__{each}__", f"[{each}]"}]
            for names in (trained, trained and task.langs)
        )
        if order != now:
            said = f"--langs: {','.join(now)} is not training's order, so that languages are taken"
            texts.append(f"{said} for others; pass --langs {','.join(trained or ())}")
        return texts

    def flags(self, ours: bool = False) -> str:
        """The arguments to decode with it, as far as the checkpoint has them."""
        words = ["--task", self.name + SUFFIX if ours and self.decodes_here else self.name]
        if _registered(self.name) is None:
            words[:0] = ["--user-dir", "FOLDER_THAT_REGISTERS_IT"]
        for name in _FLAGS.get(self.name, ()):
            value = self.get(name)
            if isinstance(value, (list, tuple)):
                value = ",".join(map(str, value))
            if value and value != _UNSAID.get(name):
                words += [flag_of(name)] if value is True else [flag_of(name), str(value)]
        return " ".join(map(shlex.quote, words))


def _setting(task: Any, name: str) -> Any:
    """A setting of a task, old or new."""
    settings = getattr(task, "cfg", None) or getattr(task, "args", None)
    return getattr(settings, name, None)


def _registered(name: Any) -> Any:
    """fairseq's class of a task; None of an unknown one."""
    from fairseq.tasks import TASK_REGISTRY

    return TASK_REGISTRY.get(name) if isinstance(name, str) else None
