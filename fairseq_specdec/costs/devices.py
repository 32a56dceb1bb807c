"""What iterations take on devices that were measured as a whole, by ``make gpu`` (docs/gpu.md)."""

import functools
import json
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from fairseq_specdec.engine.eager.decoder import layer_bytes
from fairseq_specdec.errors import UsageError

TABLE = pathlib.Path(__file__).with_name("devices.json")


class Device(NamedTuple):
    """A row of the table: where passes were timed, and a line through their times.

    Attributes:
        device: a GPU's name as torch gives it, or "cpu".
        dtype: of the verifier's weights, as ``float16``; "any" for all.
        least, most: bytes of the verifier's decoder layers for which it holds.
        column: what one more token of a pass takes, in passes of the verifier over one token.
        drafter: what a pass of the drafter over one token takes, in the same unit.
        graphs: up to so many rows iterations are faster with CUDA graphs; 0 where they are not.
    """

    device: str
    dtype: str
    least: int
    most: int
    column: float
    drafter: float
    graphs: int = 0

    def holds(self, device: str, dtype: str, size: int) -> bool:
        """Whether this is of a verifier of so many bytes."""
        same = device == self.device and self.dtype in (dtype, "any")
        return same and self.least <= size <= self.most


# Where nothing was measured. On a processor torch took 2.2 ms for a pass of the demo pair's
# verifier over one token and 5.5 over eleven, 1.7 for a draft of one token and 3.6 of ten. A GPU
# takes the time of its launches, however many tokens there are: one launch for all then pays.
_TORCH = Device("cpu", "any", 0, 1 << 62, 0.15, 0.75)
_GPU = Device("cuda", "any", 0, 1 << 62, 0.0, 0.5, graphs=32)


@functools.cache
def read(path: pathlib.Path) -> tuple[Device, ...]:
    """The rows of a table, read once.

    Raises:
        ValueError: it is no such table.
    """
    try:
        return tuple(Device(**row) for row in json.loads(path.read_text(encoding="utf-8")))
    except (OSError, TypeError, ValueError) as error:
        raise UsageError(path, f"no table as make gpu writes it ({error})") from error


def merged(rows: Sequence[Device], more: Sequence[Device]) -> tuple[Device, ...]:
    """The rows of a table with others added, which replace those of the same place."""
    places = {row[:2] for row in more}
    return (*(row for row in rows if row[:2] not in places), *more)


def device_name(device: torch.device) -> str:
    """What the table calls a device."""
    if device.type == "cuda" and torch.cuda.is_available():
        return str(torch.cuda.get_device_name(device))
    return device.type


def of_models(models: Sequence[Any], measured: bool = True) -> Device:
    """The row of an ensemble that torch runs; without one, or if none may be ``measured``, what
    holds for its kind of device."""
    row = _measured(models) if measured else None
    if row is not None:
        return row
    return _GPU if next(models[0].parameters()).is_cuda else _TORCH


def rows_for_graphs(models: Sequence[Any]) -> int:
    """Up to how many rows CUDA graphs pay for an ensemble, by the table."""
    return of_models(models).graphs


def _measured(models: Sequence[Any]) -> Device | None:
    weight = next(models[0].parameters())
    place = device_name(weight.device), str(weight.dtype).split(".")[1]
    size = sum(layer_bytes(model.decoder) for model in models)
    return next((row for row in read(TABLE) if row.holds(*place, size)), None)
