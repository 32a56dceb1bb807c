"""Which layers of a deep model a shallower one takes."""

from fairseq_specdec.errors import UsageError


def evenly_spaced(keep: int, total: int, single: int) -> list[int]:
    """``keep`` of ``total`` layers, counted from 0, evenly from the first to the last. ``single``:
    the one that is taken where ``keep`` is 1. A copy of a whole model keeps the first, whose input
    is that of the deep model; a drafter takes the last, whose output is."""
    if keep == 1:
        return [single]
    return [round(index * (total - 1) / (keep - 1)) for index in range(keep)]


def growth_plan(there: int, here: int) -> list[tuple[int, bool]]:
    """How ``here`` encoder layers come from ``there``.

    Returns:
        For each new layer, the old layer whose weights it takes, and whether it is its copy (else
        it becomes the identity). Old layers keep their order; with here <= there, every new layer
        is a copy, and old ones are left out evenly.
    """
    if here <= there:
        return [(origin, True) for origin in evenly_spaced(here, there, single=there - 1)]
    places = {new * here // there: new for new in range(there)}
    plan, origin = [], 0
    for index in range(here):
        origin = places.get(index, origin)
        plan.append((origin, index in places))
    return plan


def decoder_layers(asked: str | None, there: int, here: int) -> list[int]:
    """The verifier's layers that the drafter's take, from ``--init-decoder-layers``."""
    flag = "--init-decoder-layers"
    if not asked:
        if here > there:
            raise UsageError(
                "--init-decoder-from",
                f"the verifier has {there} decoder layers, the drafter {here}",
                f"pass --decoder-layers {there}, or say with {flag} which to take, some twice",
            )
        return evenly_spaced(here, there, single=there - 1)
    words = str(asked).strip("[]() ").split(",")
    layers = [int(word) if word.strip().isdecimal() else there for word in words]
    if len(layers) != here or max(layers) >= there:
        raise UsageError(
            f"{flag} {asked}",
            f"the drafter has {here} decoder layers, the verifier layers 0 to {there - 1}",
            "give a layer of the verifier for each of the drafter's, with commas, as in 0,5",
        )
    return layers
