"""The one load of a verifier, a drafter or a teacher, for every part of this project."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairseq import checkpoint_utils, models, quantization_utils
from fairseq.data import Dictionary

from .content import named_by
from .reading import reading


class Dictionaries:
    """The part of a task that building a model needs. None: of a side without words."""

    def __init__(self, source: Dictionary | None, target: Dictionary | None) -> None:
        self.source_dictionary = self.src_dict = source
        self.target_dictionary = self.tgt_dict = target

    def build_model(self, cfg: Any) -> Any:
        return quantization_utils.quantize_model_scalar(models.build_model(cfg, self), cfg)

    def load_state_dict(self, state: Any) -> None:
        """There is no task state."""


class Decoding(Dictionaries):
    """The same of a model that only decodes with this project."""

    decodes_speculatively = True


def placeholders(weights: Any) -> tuple[Dictionary | None, Dictionary | None]:
    """Dictionaries of the sizes that a checkpoint's weights say, for source and target; one where
    they are equal, which embeddings that are shared need. None of a side without words."""
    tables = [weights.get(f"{side}.embed_tokens.weight") for side in ("encoder", "decoder")]
    source, target = (None if each is None else placeholder(each.size(0)) for each in tables)
    same = source is not None and target is not None and len(source) == len(target)
    return source, source if same else target


def placeholder(size: int) -> Dictionary:
    """A dictionary of ``size`` symbols whose names mean nothing, fairseq's own included."""
    made = Dictionary()
    for number in range(size - len(made)):
        made.add_symbol(f"symbol{number}")
    return made


def load_models(
    flag: str, paths: Sequence[str], task: Any, state: Any = None, **options: Any
) -> tuple[list[Any], Any]:
    """Build the models of checkpoints for this project, on the CPU, one by one.

    Args:
        flag: that names them.
        task: whose dictionaries they have, or ``Dictionaries``.
        state: the content of the first file, where it has been read.
        options: of fairseq's ``load_model_ensemble``.

    Returns:
        The models, and the settings of the last one.

    Raises:
        UsageError: a file that is none, or of other dictionaries; names the flag and the file.
    """
    made: list[Any] = []
    saved = None
    for path in paths:
        with named_by(flag, path), reading(ours=True):
            built, saved = checkpoint_utils.load_model_ensemble(
                [path], task=task, state=state, **options
            )
        made, state = made + built, None
    return made, saved
