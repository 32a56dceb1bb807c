"""Importing the plugin by name and as ``--user-dir`` in one process."""

import os
from collections.abc import Callable
from typing import Any

import fairseq

from .patch import fixes

# Called where a command names this package, which may have been imported before.
when_named: list[Callable[[], None]] = []
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@fixes("fairseq.utils.import_user_module")
def know_own_folder(original: Callable[[Any], None], args: Any) -> None:
    """Know which ``--user-dir`` values are this package, already imported. Raises ImportError: one
    is another copy of this package; two cannot be registered with fairseq.

    Fault: after ``import fairseq_specdec``, ``--user-dir fairseq_specdec`` of an installed copy is
    resolved to ``.../fairseq/../fairseq_specdec``, compared unnormalised with the package's path,
    and refused as "not globally unique"; so is a link to the package. Versions: all.
    """
    folder, name = getattr(args, "user_dir", None), os.path.basename(PACKAGE)
    if folder:
        # fairseq looks beside its own folder, too. In a clone of this package's name Python finds
        # the package, for the clone is on the path.
        beside = os.path.join(os.path.dirname(fairseq.__file__), "..", folder)
        place = folder if os.path.exists(folder) else beside
        if any(_is_package(each) for each in (place, os.path.join(place, name))):
            for call in when_named:
                call()
            return
        if os.path.isdir(folder) and os.path.basename(os.path.abspath(folder)) == name:
            raise ImportError(
                f"--user-dir {folder}: another copy of the plugin has been imported already; give "
                f"--user-dir {PACKAGE}, or uninstall that one"
            )
    original(args)


def _is_package(path: str) -> bool:
    return os.path.isdir(path) and os.path.samefile(path, PACKAGE)
