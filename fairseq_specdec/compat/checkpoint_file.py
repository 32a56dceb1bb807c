"""Read a checkpoint that a flag names; refuse other files."""

from __future__ import annotations

import os
from pickle import UnpicklingError
from typing import Any, Dict

from .settings import RefusedCheckpointError


def check_file(flag: str, path: str) -> None:
    """Refuse what is no file."""
    if os.path.isdir(path):
        raise ValueError(
            f"{flag}: {path} is a folder; name a checkpoint, such as checkpoint_best.pt in it"
        )
    if not os.path.exists(path):
        raise ValueError(f"{flag}: no such file: {path}")
    if not os.path.isfile(path):
        raise ValueError(f"{flag}: {path} is no regular file; name a checkpoint")


def read_state(flag: str, path: str) -> Dict[str, Any]:
    """Content of a checkpoint of fairseq, on the CPU: its ``model`` and, in ``cfg`` or ``args``,
    its settings.
    """
    from fairseq import checkpoint_utils  # imported late, as in all of compat

    check_file(flag, path)
    try:
        state: Dict[str, Any] = checkpoint_utils.load_checkpoint_to_cpu(path)
        if not state.get("model") or not (state.get("cfg") or state.get("args")):
            raise KeyError("no model in it")
    except (RefusedCheckpointError, RuntimeError, EOFError, UnpicklingError) as error:
        raise ValueError(f"{flag}: {error}") from error  # names the file and the fault
    except Exception as error:  # whatever a file that is no checkpoint leads to
        first = (str(error).splitlines() or [""])[0]
        raise ValueError(
            f"{flag}: {path} cannot be read as a fairseq checkpoint ({type(error).__name__}: "
            f"{first}); is the file complete?"
        ) from error
    return state


def reads_speech(weights: Any) -> bool:
    """Whether a checkpoint's weights are those of a model of speech (fairseq's S2T)."""
    return any(name.startswith("encoder.subsample.") for name in weights)
