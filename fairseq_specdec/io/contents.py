"""Files that hold something else than a model or its data are named, with what they hold."""

from __future__ import annotations

import codecs
import os
import re
from typing import Union

from .named import naming

_POINTER = b"version https://git-lfs.github.com/spec/"
_PAGE = re.compile(rb"\s*(<!doctype\s+html|<html[\s>]|<\?xml\s)", re.IGNORECASE)


class WrongFileError(ValueError):
    """A file that is not what it is read as; the message begins with its path."""


def check_content(path: Union[str, os.PathLike[str]], kind: str) -> None:
    """Refuse a file that is empty, a pointer of Git LFS or a web page, by its first bytes. Raises
    WrongFileError: says what it is, and the remedy. What is no regular file is left to its reader.
    ``kind``: what it should be, as "a checkpoint".
    """
    if not os.path.isfile(path):
        return
    with naming(path), open(path, "rb") as stream:
        head = stream.read(512)
    if head.startswith(codecs.BOM_UTF8):
        head = head[len(codecs.BOM_UTF8) :]
    if head.startswith(_POINTER):
        raise WrongFileError(f"{path}: is a Git LFS pointer; run git lfs pull")
    if _PAGE.match(head):
        raise WrongFileError(f"{path}: is a web page, not {kind}; download it again")
    if not head:
        raise WrongFileError(f"{path}: is empty, not {kind}; copy it again")
