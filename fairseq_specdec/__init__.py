"""Draft-then-verify decoding for fairseq, as a plugin: ``--user-dir fairseq_specdec``.

fairseq imports ``tasks`` and ``models`` of a ``--user-dir``; from Python, ``fairseq_specdec.hub``
imports what it needs. Importing this package alone does nothing.
"""

from .version import __version__

__all__ = ["__version__"]
