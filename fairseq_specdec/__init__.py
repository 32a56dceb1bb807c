"""Draft-then-verify decoding for fairseq, as a plugin: ``--user-dir fairseq_specdec``.

Importing the package mends what fairseq alone gets wrong with the installed torch and numpy (see
``compat``), then registers the tasks, models and criterions. It prints nothing.
"""

from . import compat
from .version import __version__

compat.apply()

from . import criterions, models, tasks  # noqa: E402  (fairseq is mended before it is extended)

__all__ = ["__version__", "compat", "criterions", "models", "tasks"]
