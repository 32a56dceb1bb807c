"""Whether the native library decodes whole steps of greedy and of beam search."""

import logging
from typing import NamedTuple

import torch
from torch import Tensor

from fairseq_specdec.acceptance import AcceptanceRule
from fairseq_specdec.engine.backend import tell_once
from fairseq_specdec.engine.native.decoder import NativeSession
from fairseq_specdec.engine.native.embedding import EmbeddingTables
from fairseq_specdec.engine.native.pointers import pointer
from fairseq_specdec.engine.native.structures import Rules
from fairseq_specdec.engine.transformer import Ensemble, Verifier

from .length_limits import LengthLimits
from .policy import DecodingConstraints


def native_tables(verifier: Verifier, policy: DecodingConstraints) -> EmbeddingTables | None:
    """The embeddings of a verifier whose steps the library does as a whole; None for others, where
    it runs the layers at most.

    The reason is logged, once, unless nothing of the verifier is native.
    """
    if not verifier.is_native:
        return None
    tables = verifier.native_form()
    if tables is None:
        log_slower("an ensemble" if len(verifier.weights) > 1 else "its embeddings are not plain")
    elif policy.reads_hypotheses:
        log_slower("--no-repeat-ngram-size")
        return None
    return tables


class NativeForm(NamedTuple):
    """The library's description of a generator; threads share it."""

    tables: EmbeddingTables
    rules: Rules


def native_form(
    verifier: Verifier, rule: AcceptanceRule, policy: DecodingConstraints
) -> NativeForm | None:
    """For ``NativeChains``; None where the general step does everything."""
    tables = native_tables(verifier, policy)
    if tables is None:
        return None
    form = rule.native_form()
    if form is None:
        log_slower(f"{type(rule).__name__} is not in the native library")
        return None
    rules = Rules(
        policy.pad, policy.unk, policy.eos, policy.min_len, 0, policy.unk_penalty,
        verifier.temperature, *form,
    )  # fmt: skip
    return NativeForm(tables, rules)


def point_to_rows(rules: Rules, prefix: Tensor | None, limits: LengthLimits) -> None:
    """Point to what rows have of their own, which the caller keeps. ``prefix``: long [B, P], what
    the outputs must begin with; or None."""
    rules.prefix = pointer(prefix, torch.long)
    rules.prefix_width = 0 if prefix is None else prefix.size(1)
    rules.max_len = limits.longest
    rules.limits = pointer(limits.rows, torch.long)


def native_session(session: Ensemble) -> NativeSession:
    """The one session of a verifier with a native form."""
    (only,) = session.sessions
    assert isinstance(only, NativeSession)
    return only


def log_slower(reason: str) -> None:
    """Log, once, why steps take several calls of the library."""
    tell_once(f"several calls of the native engine a step, which is slower: {reason}", logging.INFO)
