"""Files that hold something else than a model or its data are named, with what they hold."""

import os
import re

from fairseq_specdec.errors import UsageError

from .atomic import PathLike

# What a file begins with, after a byte order mark; what that is, and the remedy.
_BEGINNINGS = (
    (rb"version https://git-lfs\.github\.com/spec/", "a Git LFS pointer", "run git lfs pull"),
    (rb"\s*(<!doctype\s+html|<html[\s>]|<\?xml\s)", "a web page, not {}", "download it again"),
    (rb"\Z", "empty, not {}", "copy it again"),
)


class WrongFileError(UsageError):
    """A file that is not what it is read as; the message begins with its path."""


def check_content(path: PathLike, kind: str) -> None:
    """Refuse a file that is empty, a pointer of Git LFS or a web page, by its first bytes. What is
    no regular file is left to its reader. ``kind``: what it should be, as "a checkpoint". Raises
    WrongFileError: says what it is, and the remedy."""
    if not os.path.isfile(path):
        return
    with open(path, "rb") as stream:
        head = stream.read(512)
    for beginning, what, remedy in _BEGINNINGS:
        if re.match(rb"(\xef\xbb\xbf)?" + beginning, head, re.IGNORECASE):
            raise WrongFileError(path, f"is {what.format(kind)}", remedy)
