"""fairseq tasks of this plugin."""

from . import translation_specdec  # noqa: F401
