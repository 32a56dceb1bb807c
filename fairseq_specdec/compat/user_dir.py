"""Importing the plugin by name and as ``--user-dir`` in one process."""

import os
from collections.abc import Callable
from typing import Any

from .patch import wrap_once

# Called where a command names this package, which may have been imported before.
when_named: list[Callable[[], None]] = []
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def know_own_folder() -> None:
    """Tell fairseq which ``--user-dir`` values are this package, already imported.

    Fault: after ``import fairseq_specdec``, ``--user-dir fairseq_specdec`` of an installed copy is
    resolved to ``.../fairseq/../fairseq_specdec``, compared unnormalised with the package's path,
    and refused as "not globally unique"; so is a link to the package. Versions: all.
    """
    import fairseq
    from fairseq import utils

    wrap_once(utils, "import_user_module", "own folder", import_unless_own)
    beside_fairseq = os.path.join(
        os.path.dirname(fairseq.__file__), "..", os.path.basename(PACKAGE)
    )
    memo: set[str] = getattr(utils.import_user_module, "memo", set())
    memo.add(PACKAGE)
    if os.path.exists(beside_fairseq) and os.path.samefile(beside_fairseq, PACKAGE):
        memo.add(beside_fairseq)
    utils.import_user_module.memo = memo


def import_unless_own(original: Callable[[Any], None], args: Any) -> None:
    """``import_user_module``, but for this package under whatever path. Raises ImportError: it is
    another copy of this package; two cannot be registered with fairseq."""
    folder = getattr(args, "user_dir", None)
    if folder and os.path.isdir(folder):
        # The clone of the same name, too: Python finds the package in it, which is on the path.
        for place in (folder, os.path.join(folder, os.path.basename(PACKAGE))):
            if os.path.isdir(place) and os.path.samefile(place, PACKAGE):
                for call in when_named:
                    call()
                return
        if os.path.basename(os.path.abspath(folder)) == os.path.basename(PACKAGE):
            raise ImportError(
                f"--user-dir {folder}: another copy of the plugin has been imported already; give "
                f"--user-dir {PACKAGE}, or uninstall that one"
            )
    original(args)
