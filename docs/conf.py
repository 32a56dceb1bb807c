"""Settings of the documentation: ``make docs`` builds it (extra ``docs``, Python 3.11 or newer)."""

import logging
import pathlib
import re
import sys

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # autodoc reads this checkout, whatever is installed

from fairseq_specdec.version import __version__  # noqa: E402

# Importing fairseq makes every logger write, and the parser of these pages logs much.
logging.getLogger("markdown_it").setLevel(logging.WARNING)

project = "fairseq_specdec"
author = "the fairseq_specdec contributors"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"fairseq_specdec {release}"
html_math_renderer = "mathml"
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["equations.css"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = [("Class attributes", "params_style")]


def write_inline(writer, node):
    writer.body.append(tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def write_block(writer, node):
    writer.body.append(tex2mathml(node.astext(), as_block=True))
    raise nodes.SkipNode


def link_repository(app, page, source):
    """Links to pages of the repository that are not pages here lead to a copy of the file."""
    docs = ROOT / "docs"
    folder = (docs / page).parent

    def explicit(found):
        target = (folder / found.group(1)).resolve()
        outside = target.is_file() and docs not in target.parents
        return f"](path:{found.group(1)})" if outside else found.group()

    source[0] = re.sub(r"\]\(([^):#]+\.md)\)", explicit, source[0])


def setup(app):
    """Equations as MathML, which browsers draw themselves: pages load nothing from elsewhere."""
    app.add_html_math_renderer("mathml", (write_inline, None), (write_block, None))
    app.connect("source-read", link_repository)
