"""``greedy``: nothing is drafted."""

from dataclasses import dataclass

from fairseq_specdec.drafting import Drafter, NoDrafter
from fairseq_specdec.drafting.twin import TwinDrafter, twin_pays
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.flag_values import flag

from .base import Setup, Strategy, VocabularyFlags, exact_rule, sampling_rule


@dataclass
class GreedyFlags:
    """Flags of ``greedy``."""

    twin: str = flag(
        "auto",
        "number format of a second copy of the verifier that drafts for it, at --beam 1 on the "
        "native backend: int8 is faster for large models in fp32 or bf16, and takes half as much "
        "memory more; the output is the same; auto is int8 for sentences that are decoded one by "
        "one, without --sampling, where the model is large and that much memory is left",
        ("auto", "none", "int8"),
    )


def drafter(setup: Setup) -> Drafter:
    """The verifier's twin, where it is asked for or pays."""
    asked, models = setup.settings, setup.models
    in_bytes = asked.verifier_dtype in ("int8", "int7")
    if asked.twin == "int8" and in_bytes:
        raise UsageError("--twin int8", "the verifier has 8 bits already", "leave it out")
    fits = len(models) == 1 and setup.sampler is None and setup.beam == 1 and not in_bytes
    by_itself = asked.twin == "auto" and fits and twin_pays(models[0], asked.backend)
    if asked.twin != "int8" and not by_itself:
        return NoDrafter()
    pad, how = setup.tgt_dict.pad(), (setup.sampler, setup.temperature)
    return TwinDrafter(setup.vocabulary, by_itself, pad, setup.eos, *how)


GREEDY = Strategy(
    "nothing drafted", drafter, exact_rule, (VocabularyFlags, GreedyFlags),
    sampled_rule=sampling_rule,
)  # fmt: skip
