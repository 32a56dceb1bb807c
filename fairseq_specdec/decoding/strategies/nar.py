"""``nar``: the drafter alone, k tokens per pass, without a verifier (the rows "NAR drafter" of Ge
et al. 2022, Tables 5, 8 and 10)."""

from typing import Any

from fairseq_specdec.acceptance import AcceptanceRule
from fairseq_specdec.drafting import Drafter, NarBlockDrafter
from fairseq_specdec.errors import UsageError

from ..drafter_file import load_drafter
from .base import DrafterFlags, Setup, Strategy
from .gad import block_size_of


def _rule(settings: Any) -> AcceptanceRule:
    return AcceptanceRule()  # never called: nothing is verified


def _drafter(setup: Setup) -> Drafter:
    path = setup.settings.drafter_path
    if len(setup.models) > 1:
        raise UsageError(
            "--path",
            f"{len(setup.models)} models, and --strategy nar decodes with the drafter alone",
            "give one of them, or use --strategy gad",
        )
    model = setup.read_drafter(load_drafter)
    if getattr(model.encoder, "read_layers", ()):
        raise UsageError(
            "--strategy nar",
            f"the drafter {path} reads its verifier's states, and no verifier runs",
            "use a drafter with an encoder (--arch spec_drafter_base), or --strategy gad",
        )
    size = block_size_of(setup, model)
    return NarBlockDrafter(model, setup.draft_options(size, row_independent=True, verified=False))


NAR = Strategy(
    "the drafter alone, not lossless",
    _drafter,
    _rule,
    (DrafterFlags,),
    needs_drafter=True,
    verifies=False,
)
