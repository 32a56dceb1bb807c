"""fairseq tasks of this plugin."""

from . import families, translation_lev_modified, translation_specdec  # noqa: F401
