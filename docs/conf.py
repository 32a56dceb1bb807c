"""Settings of the documentation: ``make docs`` builds it (extra ``docs``, Python 3.11 or newer)."""

import logging
import pathlib
import re
import sys

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

ROOT = pathlib.Path(__file__).resolve().parents[1]
# What axe-core finds against the theme's pages, and what replaces it.
ACCESSIBLE = (
    ('role="heading">', 'role="heading" aria-level="2">'),
    ('<aside class="sidebar-drawer"', '<aside aria-label="All pages" class="sidebar-drawer"'),
    ('<aside class="toc-drawer', '<aside aria-label="This page" class="toc-drawer'),
    # scrolled by keys too
    ("<pre>", '<pre tabindex="0">'),
    ('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper'),
    ('<div class="math-wrapper', '<div tabindex="0" class="math-wrapper'),
    ('<th class="head"><p></p></th>', "<td></td>"),
    ("</noscript>\n\n<div id", "</noscript>\n<h1>Search</h1>\n<div id"),
)
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]  # autodoc reads this checkout, not what is installed

from flag_reference import reference  # noqa: E402

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

    def explicit(match):
        target = (folder / match.group(1)).resolve()
        outside = target.is_file() and docs not in target.parents
        return f"](path:{match.group(1)})" if outside else match.group()

    source[0] = re.sub(r"\]\(([^):#]+\.md)\)", explicit, source[0])


def write_flags(app, page, source):
    """The tables of the page ``flags``, from the commands' parsers."""
    source[0] = source[0].replace("<!-- reference -->", reference() if page == "flags" else "")


def make_accessible(app, error):
    """Change the written pages as ``ACCESSIBLE`` says."""
    for page in pathlib.Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for written, better in ACCESSIBLE:
            text = text.replace(written, better)
        page.write_text(text, encoding="utf-8")


def setup(app):
    """Equations as MathML, which browsers draw themselves: pages load nothing from elsewhere."""
    app.add_html_math_renderer("mathml", (write_inline, None), (write_block, None))
    app.connect("source-read", link_repository)
    app.connect("source-read", write_flags)
    app.connect("build-finished", make_accessible)
