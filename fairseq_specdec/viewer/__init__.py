"""The one viewer of traces in a browser: block by block, several strategies side by side."""
