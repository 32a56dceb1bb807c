"""Checkpoints that cannot be read are named."""

import os
import pickle
from typing import Any

from fairseq_specdec.io.contents import check_content

from .patch import wrap_once


def name_unreadable_checkpoints() -> None:
    """Say which file it is that torch cannot read.

    Fault: for a truncated file torch says "PytorchStreamReader failed reading zip archive" or
    "Ran out of input", without its name; ``--path a.pt:b.pt`` does not say which one. Versions:
    all. The exception keeps its type; types other than torch.load raises pass as they are.
    """
    from fairseq import checkpoint_utils

    wrap_once(checkpoint_utils, "load_checkpoint_to_cpu", "name_unreadable_checkpoints", _load)


def _load(original: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
    check_regular(path)
    try:
        return original(path, *args, **kwargs)
    except IsADirectoryError as error:
        raise IsADirectoryError(
            f"{path}: is a folder; name a checkpoint, such as checkpoint_best.pt in it"
        ) from error
    except (RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise type(error)(
            f"{path}: cannot be read as a checkpoint ({reader_message(error)}); "
            "is the file complete?"
        ) from error


def check_regular(path: Any) -> None:
    """Refuse pipes, devices and sockets, whose opening or reading may never end, and what holds
    something else by its first bytes. Raises OSError: it is there, and neither a file nor a folder;
    WrongFileError: what the file holds."""
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise OSError(f"{path}: is no regular file; name a checkpoint")
    check_content(path, "a checkpoint")


def reader_message(error: BaseException) -> str:
    """The first line of a reader's error; of a damaged file, without the reader's own terms."""
    text = (str(error).splitlines() or [type(error).__name__])[0]
    damaged = ("miniz", "central directory", "sound zip", "Ran out of input", "ends too early")
    return "it is cut off or damaged" if any(each in text for each in damaged) else text
