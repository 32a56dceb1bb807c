"""Whether the native library decodes whole steps of greedy and of beam search."""

from __future__ import annotations

import logging
from typing import Optional

from fairseq_specdec.engine.backend import tell_once
from fairseq_specdec.engine.native.embedding import EmbeddingTables
from fairseq_specdec.engine.verifier import Verifier

from .policy import LogitsPolicy


def native_tables(verifier: Verifier, policy: LogitsPolicy) -> Optional[EmbeddingTables]:
    """The embeddings of a verifier whose steps the library does as a whole; None for others, where
    it runs the layers at most.

    The reason is logged, once, unless nothing of the verifier is native.
    """
    if not verifier.is_native:
        return None
    tables = verifier.native_form()
    if tables is None:
        tell_slower("an ensemble" if len(verifier.weights) > 1 else "its embeddings are not plain")
    elif policy.reads_hypotheses:
        tell_slower("--no-repeat-ngram-size")
        return None
    return tables


def tell_slower(reason: str) -> None:
    """Say, once, why steps take several calls of the library."""
    tell_once(f"several calls of the native engine a step, which is slower: {reason}", logging.INFO)
