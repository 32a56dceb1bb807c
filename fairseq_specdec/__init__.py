"""Draft-then-verify decoding for fairseq, as a plugin: ``--user-dir fairseq_specdec``.

Imported alone, this package quietens one logger and no more. ``fairseq_specdec.tasks`` is the
plugin: fairseq's ``--user-dir`` imports it, and ``fairseq_specdec.hub`` does for Python.
"""

import importlib
import logging
import sys

from .version import __version__

__all__ = ["__version__"]

# Whenever fairseq is imported, this module asks for tensorboardX.
logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)

if "fairseq" in sys.modules:  # it looks for tasks in its --user-dir, and a clone's root has none
    importlib.import_module(f"{__name__}.tasks")
