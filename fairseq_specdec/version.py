"""The version of the package, apart so that setup.py can read it without importing fairseq."""

__version__ = "0.1.0"
