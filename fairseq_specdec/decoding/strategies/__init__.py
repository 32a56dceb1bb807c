"""One entry for each system of the papers: its drafter, its rule and its flags."""

from fairseq_specdec.config import OWN_FIELDS

from .base import Setup, Strategy
from .blockwise import BLOCKWISE, BLOCKWISE_RELAXED
from .calm import CALM
from .gad import GAD, GAD_RELAXED
from .greedy import GREEDY
from .iad import IAD
from .lookup import LOOKUP
from .nar import NAR
from .small_models import BILD, BILD_EARLY_EXIT, SPS

STRATEGIES: dict[str, Strategy] = {
    "greedy": GREEDY,
    "none": GREEDY,
    "iad": IAD,
    "lookup": LOOKUP,
    "gad": GAD,
    "gad++": GAD_RELAXED,
    "specdec": GAD_RELAXED,
    "nar": NAR,
    "sps": SPS,
    "blockwise": BLOCKWISE,
    "specdec-heads": BLOCKWISE_RELAXED,
    "bild": BILD,
    "bild-early-exit": BILD_EARLY_EXIT,
    "calm": CALM,
}


# Flags of some strategies only, and which those are. Another strategy refuses them, unless they are
# at their default. --block-size is missing: models that are trained under this task have a flag of
# that name too.
OWN_FLAGS: dict[str, tuple[str, ...]] = {
    field.name: field.metadata["used_by"] for field in OWN_FIELDS if field.metadata.get("used_by")
}
# Strategies whose drafter is a block drafter.
BLOCK_DRAFTED = OWN_FLAGS["collapse_repeats"]

__all__ = ["BLOCK_DRAFTED", "OWN_FLAGS", "STRATEGIES", "Setup", "Strategy"]
