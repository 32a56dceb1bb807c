"""Importing the plugin by name and as ``--user-dir`` in one process."""

from __future__ import annotations

import os
from typing import Set


def know_own_folder() -> None:
    """Tell fairseq which ``--user-dir`` values are this package, already imported.

    Fault: after ``import fairseq_specdec``, ``--user-dir fairseq_specdec`` of an installed copy is
    resolved to ``.../fairseq/../fairseq_specdec``, compared unnormalised with the package's path,
    and refused as "not globally unique". Versions: all.
    """
    import fairseq
    from fairseq.utils import import_user_module

    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    beside_fairseq = os.path.join(
        os.path.dirname(fairseq.__file__), "..", os.path.basename(package)
    )
    memo: Set[str] = getattr(import_user_module, "memo", set())
    memo.add(package)
    if os.path.exists(beside_fairseq) and os.path.samefile(beside_fairseq, package):
        memo.add(beside_fairseq)
    import_user_module.memo = memo
