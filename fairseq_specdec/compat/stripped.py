"""Checkpoints whose training state was removed."""

from typing import Any

from .patch import wrap_once


def read_stripped_checkpoints() -> None:
    """Read checkpoints whose optimizer history was emptied to make them smaller.

    Fault: fairseq looks at the last entry of ``optimizer_history`` of every checkpoint, also when
    only decoding, and dies on an empty list ("list index out of range"). Versions: all.
    """
    from fairseq import checkpoint_utils

    fix = "read_stripped_checkpoints"
    wrap_once(checkpoint_utils, "_upgrade_state_dict", fix, _upgrade_state_dict)


def _upgrade_state_dict(original: Any, state: Any) -> Any:
    if state.get("optimizer_history") == []:
        state["optimizer_history"] = [
            {"num_updates": 0, "optimizer_name": "", "lr_scheduler_state": {}}
        ]
    return original(state)
