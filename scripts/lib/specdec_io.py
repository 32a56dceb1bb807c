"""``fairseq_specdec.io`` under a name of its own: ``from specdec_io.atomic import replacing``.

Importing ``fairseq_specdec`` itself imports fairseq: that takes seconds, and fails before the
package is installed.
"""

import pathlib

__path__ = [str(pathlib.Path(__file__).resolve().parents[2] / "fairseq_specdec" / "io")]
