"""The one viewer of traces in a browser: block by block, several strategies side by side."""

from .page import Page, page

__all__ = ["Page", "page"]
