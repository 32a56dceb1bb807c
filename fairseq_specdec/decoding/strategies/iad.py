"""``iad``: Input-guided Aggressive Decoding (Ge et al. 2022, section 3.1)."""

from fairseq_specdec.drafting import Drafter, InputCopyDrafter
from fairseq_specdec.drafting.edit_table import read_edits

from .base import Setup, Strategy, exact_rule


def _drafter(setup: Setup) -> Drafter:
    settings = setup.settings
    limit = settings.max_suffix or None
    path, edits = settings.edits, None
    if path is not None:
        edits = setup.once(("edits", path), lambda: read_edits(path, setup.src_dict))
    pad = setup.tgt_dict.pad()
    return InputCopyDrafter(pad, setup.eos, settings.block_size, settings.realign, limit, edits)


IAD = Strategy(_drafter, exact_rule, joined_dictionary=True)
