"""Names in the authors' drafter checkpoints and the names used here (pure functions).

Xia et al. 2023 released drafters whose weights carry the names of fairseq's non-autoregressive
Transformer. The tensors are used as they are: only names change.
"""

from collections.abc import Mapping

from torch import Tensor

# --arch of their training script, as stored in their checkpoints.
ARCHITECTURES = ("block", "block_base", "block_6e6d512")

# The same drafter in this project's checkpoints.
OWN_ARCHITECTURE = "legacy_drafter"

_COPY = "decoder.source_copy.query_proj.weight"
_RENAMED = {"decoder.copy_attn.weight": _COPY}
# The source copy shares the encoder's tables; a shared module has a name for each use.
_SHARED = {
    f"decoder.source_copy.{table}": f"encoder.{table}"
    for table in ("embed_tokens.weight", "embed_positions.weight")
}
# fairseq's decoders have versions of their layout; a drafter has only the newest.
_DROPPED = ("decoder.version",)


def to_ours(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights under this project's names.

    Args:
        weights: tensors by the authors' names; those that carry ours already are kept.

    Returns:
        The same tensors, not copied; those of tables that two modules share appear under both
        names.
    """
    ours = {_RENAMED.get(name, name): x for name, x in weights.items() if name not in _DROPPED}
    if _COPY in ours:
        ours.update({name: ours[shared] for name, shared in _SHARED.items() if shared in ours})
    return ours
