"""How long passes take on a device, by their tokens: what decides how much drafting pays.

One mechanism for all backends. What the native one costs on a CPU are constants here; what a GPU
costs is in ``pass_costs.json``, to which ``make gpu`` adds the card that it ran on (docs/gpu.md).
"""

from __future__ import annotations

import functools
import json
import pathlib
from typing import Any, NamedTuple, Optional, Sequence, Tuple

import torch

from fairseq_specdec.engine.eager.decoder import layer_bytes
from fairseq_specdec.engine.native.decoder import NativeDecoder

TABLE = pathlib.Path(__file__).with_name("pass_costs.json")

LONGEST = 256  # tokens of a draft that are looked at

# The native backend: bytes of packed decoder weights that the last-level cache holds, and what one
# more token of a pass takes then, as a share of a pass over one token. Measured with greedy search
# in batches of 1 and 32 on the demo pair. Where weights come from memory, a token costs less.
CACHE = 32 << 20
# Of smaller decoders a pass costs hardly more than starting it, and a token next to nothing.
SMALLEST = 1 << 20
COLUMN = 0.4

# A drafter's pass as a share of the verifier's: on the demo pair 32% of gad's time goes into the
# drafter and 57% into the verifier.
DRAFTER = 0.5

# A pass takes 0.23 passes longer for each further token of a row, in which an iteration that drafts
# emits 0.3 tokens: a draft token that is less likely than that costs more time than it saves. On
# the demo pair 0.2, 0.3 and 0.45 take 0.87, 0.87 and 0.89 of the time of whole blocks.
LEAST_CHANCE = 0.3


# Formats of a verifier beside which a draft takes longer than the steps that it saves, for a row
# alone, too.
TOO_FAST = ("int8",)


class PassCost(NamedTuple):
    """How long passes take, in passes of the verifier over one token.

    Attributes:
        column: each further token of a pass.
        drafter: a pass of the drafter over one token.
        least_chance: of a draft token to be accepted, with all before it, for its verification to
            pay in a row alone; 0 where that was not measured.
        alone: whether drafts pay in a row alone.
    """

    column: float
    drafter: float
    least_chance: float = 0.0
    alone: bool = True

    def best(self, live: int, chance: float, gain: float = 1.0) -> int:
        """Draft tokens of each row with which an iteration emits most tokens in its time.

        Args:
            live: rows.
            chance: of a draft token to be accepted after accepted ones.
            gain: at least so many times as fast as without drafts; else 0.
        """
        chosen, rate = 0, gain / (1 + self.column * (live - 1))
        emitted, reached, before = 1.0, 1.0, 0.0
        for size in range(1, LONGEST):
            reached *= chance
            emitted += reached
            drafting = self.drafter * (1 + self.column * (live * size - 1))
            found = emitted / (1 + self.column * (live * (1 + size) - 1) + drafting)
            if found < before:  # it rises to one peak: tokens add less and less, time alike
                break
            before = found
            if found > rate:
                chosen, rate = size, found
        return chosen


class Measured(NamedTuple):
    """A row of the table: where a cost was measured, and the cost.

    Attributes:
        device: a GPU's name as torch gives it, or "cpu".
        backend: "torch" or "native".
        dtype: of the verifier's weights, as ``float16``; "any" for all.
        least, most: bytes of the verifier's decoder layers for which it holds.
        column, drafter, least_chance: as of ``PassCost``.
        graphs: up to so many rows iterations are faster with CUDA graphs; 0 where they are not, or
            that was not measured.
    """

    device: str
    backend: str
    dtype: str
    least: int
    most: int
    column: float
    drafter: float
    graphs: int = 0
    least_chance: float = 0.0

    def holds(self, device: str, backend: str, dtype: str, size: int) -> bool:
        """Whether this is the cost of a verifier of so many bytes."""
        same = (device, backend) == (self.device, self.backend) and self.dtype in (dtype, "any")
        return same and self.least <= size <= self.most


@functools.lru_cache(maxsize=None)
def read(path: pathlib.Path) -> Tuple[Measured, ...]:
    """The rows of a table, read once.

    Raises:
        ValueError: it is no such table.
    """
    try:
        return tuple(Measured(**row) for row in json.loads(path.read_text(encoding="utf-8")))
    except (OSError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: no table as make gpu writes it ({error})") from error


def merged(rows: Sequence[Measured], more: Sequence[Measured]) -> Tuple[Measured, ...]:
    """The rows of a table with others added, which replace those of the same place."""
    places = {row[:3] for row in more}
    return (*(row for row in rows if row[:3] not in places), *more)


def device_name(device: torch.device) -> str:
    """What the table calls a device."""
    if device.type == "cuda" and torch.cuda.is_available():
        return str(torch.cuda.get_device_name(device))
    return device.type


def rows_for_graphs(models: Sequence[Any]) -> int:
    """Up to how many rows CUDA graphs pay for an ensemble, by the table; 0 where it does not
    know."""
    weight = next(models[0].parameters())
    place = device_name(weight.device), "torch", str(weight.dtype).split(".")[1]
    size = sum(layer_bytes(model.decoder) for model in models)
    return next((row.graphs for row in read(TABLE) if row.holds(*place, size)), 0)


def pass_cost(verifier: Any, drafter: Any) -> Optional[PassCost]:
    """What passes of a ``Verifier`` cost, with a drafter that is a model; None where the table does
    not know, and for other drafters.

    Of the native backend it knows decoders whose weights the cache holds, and which are no toys.
    Drafts of the source (``iad``) are right so often on some texts that a limit by this cost took
    longer there than ``CPU_SPARE``, which is kept for them.

    Args:
        verifier: with its weights.
        drafter: a ``Drafter``.
    """
    if not drafter.runs_model:
        return None
    native = Measured(
        "cpu", "native", "any", SMALLEST, CACHE, COLUMN, DRAFTER, least_chance=LEAST_CHANCE
    )
    layers = [weights.layers for weights in verifier.weights]
    backends = {"native" if isinstance(each, NativeDecoder) else "torch" for each in layers}
    weight = next(verifier.models[0].parameters())
    place = device_name(weight.device), "+".join(sorted(backends)), str(weight.dtype).split(".")[1]
    size = sum(each.nbytes for each in layers)
    known = (row for row in (native, *read(TABLE)) if row.holds(*place, size))
    formats = {each.stack.number_format for each in layers if isinstance(each, NativeDecoder)}
    alone = formats.isdisjoint(TOO_FAST)
    costs = (PassCost(row.column, row.drafter, row.least_chance, alone) for row in known)
    return next(costs, None)
