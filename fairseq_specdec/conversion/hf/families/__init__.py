"""One loader a family, by config.json's ``model_type``."""

from . import bart, m2m_100, marian, mbart  # noqa: F401
from .base import LOADERS, Converted, Loader

__all__ = ["LOADERS", "Converted", "Loader"]
