"""The task that a checkpoint was trained with, and the flags that decode with it."""

import shlex
from typing import Any, Dict, Optional, Tuple

from omegaconf import OmegaConf

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
# Their values where nobody asked for another.
_UNSAID = {"lang_tok_style": "multilingual"}
STOCK = "translation"
SUFFIX = "_specdec"


class OwnTask:
    """The task of a checkpoint's training. ``state``: the checkpoint's content; whatever it lacks
    is not known. ``name``: fairseq's task, as ``--task`` takes it: of one that decodes with this
    project, the task that it was made of; ``translation`` where the checkpoint names none."""

    def __init__(self, state: Any) -> None:
        name, self._settings = _named(state if isinstance(state, dict) else {})
        if getattr(_registered(name), "decodes_speculatively", False):
            stock = name[: -len(SUFFIX)] if name.endswith(SUFFIX) else STOCK
            name = stock if _registered(stock) is not None else STOCK
        self.name = name if isinstance(name, str) else STOCK

    @property
    def decodes_here(self) -> bool:
        """Whether this project has a task that does the same."""
        return _registered(self.name + SUFFIX) is not None

    def adds_symbols(self, task: Any) -> bool:
        """Whether it may have added symbols to the dictionaries that ``task`` does not know, or
        knows only by flags."""
        return self.name in _FLAGS or (self.name != STOCK and not self.made(task))

    def made(self, task: Any) -> bool:
        """Whether ``task`` is one of these."""
        known = _registered(self.name)
        return known is not None and isinstance(task, known)

    def reverses(self, task: Any) -> bool:
        """Whether it translated one pair of languages, and ``task`` goes from its target to its
        source."""
        sides = ("source_lang", "target_lang")
        own = [self._settings.get(side) for side in sides]
        now = [_setting(task, side) for side in sides]
        several = self._settings.get("lang_pairs")
        return not several and None not in own and own[0] != own[1] and own == now[::-1]

    def flags(self, ours: bool = False) -> str:
        """The words of a command line that decode with it, as far as the checkpoint has them."""
        name = self.name
        if ours and self.decodes_here:
            name += SUFFIX
        words = ["--task", name]
        if _registered(self.name) is None:
            words[:0] = ["--user-dir", "FOLDER_THAT_REGISTERS_IT"]
        for name in _FLAGS.get(self.name, ()):
            value, flag = self._settings.get(name), "--" + name.replace("_", "-")
            if isinstance(value, (list, tuple)):
                value = ",".join(map(str, value))
            if value is True:
                words.append(flag)
            elif value and value != _UNSAID.get(name):
                words += [flag, str(value)]
        return " ".join(map(shlex.quote, words))


def _setting(task: Any, name: str) -> Any:
    """A setting of a task, old or new."""
    settings = getattr(task, "cfg", None) or getattr(task, "args", None)
    return getattr(settings, name, None)


def _registered(name: Any) -> Optional[type]:
    from fairseq.tasks import TASK_REGISTRY

    kind: Optional[type] = TASK_REGISTRY.get(name) if isinstance(name, str) else None
    return kind


def _named(state: Dict[str, Any]) -> Tuple[Any, Dict[Any, Any]]:
    """(name, settings) of the task, from either layout of a checkpoint."""
    if state.get("args") is not None:
        settings = dict(vars(state["args"]))  # those of the model too, whose name is _name
        return settings.get("task"), settings
    cfg = state.get("cfg")
    if OmegaConf.is_config(cfg):  # interpolations have been refused
        cfg = OmegaConf.to_container(cfg)
    task = cfg.get("task") if isinstance(cfg, dict) else None
    settings = dict(task if isinstance(task, dict) else getattr(task, "__dict__", {}))
    return settings.get("_name"), settings
