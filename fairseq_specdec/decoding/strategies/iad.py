"""``iad``: Input-guided Aggressive Decoding (Ge et al. 2022, section 3.1)."""

from fairseq_specdec.drafting import Drafter, InputCopyDrafter

from .base import Setup, Strategy, exact_rule


def _drafter(setup: Setup) -> Drafter:
    settings = setup.settings
    limit = settings.max_suffix or None
    pad = setup.tgt_dict.pad()
    return InputCopyDrafter(pad, setup.eos, settings.block_size, settings.realign, limit)


IAD = Strategy(_drafter, exact_rule, joined_dictionary=True)
