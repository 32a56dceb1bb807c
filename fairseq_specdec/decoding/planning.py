"""What decides how much a generator's batches draft."""

from collections.abc import Callable

from fairseq_specdec.costs import devices
from fairseq_specdec.costs.passes import PassTimes, linear, seconds
from fairseq_specdec.costs.tables import OFF, figures
from fairseq_specdec.drafting import Drafter, ReadyDrafter
from fairseq_specdec.engine.native.library import load
from fairseq_specdec.engine.verifier import Verifier
from fairseq_specdec.engine.work import Pass

from .draft_budget import FewRejections, Planning
from .draft_plan import LONGEST, Planner
from .options import DecodingOptions

# A draft of a model whose work is not known, as a share of a pass over as many tokens.
_UNKNOWN_DRAFT = 0.5


# Seconds of an iteration that is no part of a call of the library for several, beside passes:
# operators of torch and a call for it alone. It took 200 us on an Emerald Rapids, and 150 to 190 on
# a Zen 4.
_OUTSIDE = 1.8e-4
# The same of an iteration that drafts within such a call: it is booked on its own, where those
# without drafts are booked together. 12 (gad) to 22 us (iad) on a Zen 4.
_BOOKED = 2e-5


def planning_for(
    verifier: Verifier,
    drafter: Drafter,
    ready: ReadyDrafter,
    options: DecodingOptions,
    chained: bool = True,
) -> Planning:
    """For a generator whose drafts need not be whole.

    Args:
        verifier: with its weights.
        drafter, ready: before and with its weights.
        options: all other settings.
        chained: a call of the library can do several iterations (``NativeChains``).

    Raises:
        ValueError: ``--cost-table`` that cannot be used.
    """
    if options.max_expected_rejections is not None:
        return FewRejections(options.max_expected_rejections)
    longest = LONGEST if drafter.block_size is None else drafter.block_size
    settled = options.planned_chance is not None
    pass_times = times(verifier, drafter, ready, OFF if settled else options.cost_table, chained)
    # A CUDA graph computes blocks of few sizes, and each is recorded anew.
    whole = drafter.whole_on_gpu and next(verifier.models[0].parameters()).is_cuda
    return Planner(pass_times, longest, drafter.ends_early, not drafter.runs_model, whole)


def verifying(
    planning: Planning | None, verifier: Verifier, drafter: Drafter, ready: ReadyDrafter
) -> Callable[[float], float]:
    """Seconds of a pass of the verifier over so many tokens: as drafts are planned by, else by the
    shipped figures.

    Args:
        planning: of the generator.
        verifier, drafter, ready: as for ``planning_for``.
    """
    if isinstance(planning, Planner):
        return planning.times.verifying
    return times(verifier, drafter, ready, OFF).verifying


def times(
    verifier: Verifier, drafter: Drafter, ready: ReadyDrafter, asked: str, chained: bool = True
) -> PassTimes:
    """How long passes and drafts take, as far as it is known.

    Args:
        verifier, drafter, ready, chained: as for ``planning_for``.
        asked: ``--cost-table``.
    """
    work, library = verifier.work(), load()
    if work is None or library is None:
        device = devices.of_models(verifier.models, measured=asked != OFF)
        return linear(device.column, device.drafter if drafter.runs_model else 0.0)
    processor = figures(asked, library)
    passes = [Pass(each, 1.0) for each in work]
    of_draft = ready.passes(1, 1)
    weights = sum(each.work.nbytes for each in passes)
    weights += sum({id(each.work): each.work.nbytes for each in of_draft or ()}.values())

    # Where each iteration is a call of its own, those without drafts are too.
    around = 0.0 if chained else _OUTSIDE
    beside = (_BOOKED if ready.in_library else _OUTSIDE) if chained else 0.0

    def of_verifier(tokens: float) -> float:
        return around + seconds(processor, [Pass(each, tokens) for each in work], 1, weights)

    def drafting(rows: int, size: int) -> float:
        passes = ready.passes(rows, size)
        if passes is None:
            return _UNKNOWN_DRAFT * of_verifier(rows * size)
        return seconds(processor, passes, rows, weights) if passes else 0.0

    return PassTimes(of_verifier, drafting, beside)
