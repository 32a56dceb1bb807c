"""Checkpoints whose training state was removed."""

from typing import Any

from .patch import wrap_once

_NONE = {"num_updates": 0, "optimizer_name": "", "criterion_name": "", "lr_scheduler_state": {}}


def read_stripped_checkpoints() -> None:
    """Read checkpoints whose training state was left out or emptied to make them smaller.

    Fault: fairseq looks at the last entry of ``optimizer_history`` and at ``extra_state`` of every
    checkpoint, also when only decoding, and dies where they are not as it wrote them ("list index
    out of range", KeyError). Versions: all.
    """
    from fairseq import checkpoint_utils

    fix = "read_stripped_checkpoints"
    wrap_once(checkpoint_utils, "_upgrade_state_dict", fix, _upgrade_state_dict)


def _upgrade_state_dict(original: Any, state: Any) -> Any:
    history = state.get("optimizer_history")
    last = history[-1] if isinstance(history, list) and history else None
    whole = isinstance(last, dict) and not {"lr_scheduler_state", "best_loss"}.isdisjoint(last)
    # The first releases had no history.
    old = "optimizer_history" not in state and {"best_loss", "optimizer"} <= set(state)
    if not whole and not old:
        state["optimizer_history"] = [dict(_NONE)]
    old = "extra_state" not in state and {"epoch", "batch_offset", "val_loss"} <= set(state)
    if not isinstance(state.get("extra_state"), dict) and not old:
        state["extra_state"] = {}
    return original(state)
