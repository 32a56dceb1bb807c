"""Draft-then-verify decoding for fairseq, as a plugin: ``--user-dir fairseq_specdec``.

Imported alone, this package does nothing. ``fairseq_specdec.tasks`` is the plugin: fairseq's
``--user-dir`` imports it, and ``fairseq_specdec.hub`` does for Python.
"""

import importlib
import sys

from .version import __version__

__all__ = ["__version__"]

if "fairseq" in sys.modules:  # it looks for tasks in its --user-dir, and a clone's root has none
    importlib.import_module(f"{__name__}.tasks")
