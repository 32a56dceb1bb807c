"""Whether a drafter serves a beam search."""

import logging

from fairseq_specdec.drafting import Drafter, NoDrafter
from fairseq_specdec.engine.backend import Backend

from ..options import DecodingOptions

logger = logging.getLogger(__name__)


def beam_drafter(drafter: Drafter, options: DecodingOptions, backend: Backend) -> Drafter:
    """The drafter for a beam search: the one given, or none, which is logged."""
    reason = _why_none(drafter, options, backend)
    if reason is None:
        return drafter
    logger.info(
        "--beam %d: beam search without drafts: %s", options.beam, reason.format(options.strategy)
    )
    return NoDrafter()


def _why_none(drafter: Drafter, options: DecodingOptions, backend: Backend) -> str | None:
    if not drafter.for_beams:
        return "--strategy {} drafts for one hypothesis only"
    if not drafter.runs_model:
        return None
    if backend.name == "native":
        return (
            "natively a pass costs what its prefixes cost, so the drafts of a model do not pay "
            "(--backend torch --draft-budget 20 makes them)"
        )
    if options.look_ahead is None:
        return "the drafts of a model do not pay (--draft-budget 20 makes them)"
    return None
