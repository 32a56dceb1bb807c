"""The number formats of weights, by the names that flags have for them."""

from typing import NamedTuple

import torch


class NumberFormat(NamedTuple):
    """One format.

    Attributes:
        dtype: of a tensor; None of weights that exist packed alone.
        nbytes: of a number.
        packed: of a weight packed in the native library, ``specdec::Format`` (product.h); None
            where it packs none.
    """

    dtype: torch.dtype | None
    nbytes: int
    packed: int | None


NUMBER_FORMATS: dict[str, NumberFormat] = {
    "fp32": NumberFormat(torch.float32, 4, 0),
    "fp16": NumberFormat(torch.float16, 2, None),
    "bf16": NumberFormat(torch.bfloat16, 2, 1),
    "int8": NumberFormat(torch.int8, 1, 2),
    "int7": NumberFormat(None, 1, 4),
}
PACKED = tuple(name for name, form in NUMBER_FORMATS.items() if form.packed is not None)
# Of a drafter, whose rows are in them too.
OF_DRAFTERS = tuple(name for name, form in NUMBER_FORMATS.items() if form.dtype is not None)
# In which a torch module computes.
COMPUTED = tuple(
    name
    for name, form in NUMBER_FORMATS.items()
    if form.dtype is not None and form.dtype.is_floating_point
)
