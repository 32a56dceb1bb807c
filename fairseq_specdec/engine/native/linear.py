"""A single product in the native library."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from fairseq_specdec.errors import UsageError

from ..devices import FORMATS
from ..memory import joined, numbers, product_of
from ..state import floats, pointer
from .library import Library
from .structures import MatrixParts

# By their number in the library: precisions of the flags, and float32 stored in fp16.
STORED_AS = ("fp32", "bf16", "int8", "halves", "int7")
_STORED_BYTES = {"fp32": 4, "halves": 2, "bf16": 2, "int8": 1, "int7": 1}
# Of specdec::MatrixParts.
PARTS = {
    "words": torch.int32, "bias": torch.float32, "scales": torch.float32, "offsets": torch.int32,
}  # fmt: skip
_STORE = 0  # specdec::After::kStore
_NUMBERS = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}  # specdec::Numbers


class NativeLinear:
    """y = x W^T + b, a row of which has the same bits in every batch.

    Attributes:
        pointer: of the library's ``SharedMatrix``.
        size, width: of W [size, width].
        exact: the packed weight has the numbers of the one given, to the last bit.
        others: the same weight in formats that round, where this one is looked up or has a twin.

    Args:
        library: the loaded library.
        weight: [out, in].
        bias: [out] or None.
        number_format: one of ``PACKED``.
        dtype: of the rows that are looked up; None for the weight's.
    """

    others: tuple[NativeLinear, ...] = ()
    packed_as: str | None = None  # precision of the file that it is borrowed from
    _kept: Any = None  # memory that is borrowed

    def __init__(
        self,
        library: Library,
        weight: Tensor,
        bias: Tensor | None,
        number_format: str,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.library = library
        self.size, self.width = weight.shape
        self.number_format = number_format
        self.dtype = dtype or weight.dtype
        self.bias = None if bias is None else floats(bias).clone()  # the module's may change
        in_bf16 = weight.dtype == torch.bfloat16 and number_format == "bf16"
        self.exact = in_bf16 or number_format == "fp32"
        weight = weight.detach().cpu().contiguous() if weight.dtype in _NUMBERS else floats(weight)
        self.pointer = library.make(
            self, "matrix", self.size, self.width, pointer(weight, weight.dtype),
            _NUMBERS[weight.dtype], pointer(self.bias), FORMATS[number_format],
        )  # fmt: skip

    @classmethod
    def borrowed(
        cls, library: Library, parts: dict[str, Tensor], number_format: str, **known: Any
    ) -> NativeLinear:
        """One whose packed weight lies in memory that is there already.

        Args:
            library: the loaded library.
            parts: as ``parts`` gives them, of this variant.
            number_format: as for the constructor.
            known: ``size``, ``width``, ``stored``, ``exact``, ``bias``, ``dtype``, ``packed_as`` of
                the product.

        Raises:
            ValueError: the parts are not those of such a product.
        """
        product = cls.__new__(cls)
        product.library, product.number_format = library, number_format
        stored = known.pop("stored")
        product.__dict__.update(known)
        numbers = [parts.get(name) for name in PARTS]
        kept = [None if each is None else each.contiguous() for each in numbers]
        words, bias, scales, offsets = kept
        for each in (scales, offsets):
            if each is not None and (bias is None or each.numel() != bias.numel()):
                raise ValueError("a packed matrix with parts of several sizes")
        described = MatrixParts(
            product.size, product.width, STORED_AS.index(stored),
            0 if words is None else words.numel(), pointer(words, torch.int32),
            0 if bias is None else bias.numel(), pointer(bias), pointer(scales),
            pointer(offsets, torch.int32),
        )  # fmt: skip
        product._kept = kept
        product.pointer = library.make(product, "matrix", ctypes.byref(described), by="borrow")
        return product

    @property
    def parts(self) -> dict[str, Tensor]:
        """The packed weight: ``words``, ``bias``, and of int8 and int7 ``scales`` and ``offsets``;
        in memory that is the product's."""
        described = self._described()
        counts = (described.words_size, *[described.outputs] * 3)
        parts = {}
        for name, count in zip(PARTS, counts):
            address = getattr(described, name)
            if address:
                memory = (ctypes.c_uint8 * (4 * count)).from_address(address)
                parts[name] = torch.frombuffer(memory, dtype=PARTS[name])
        return parts

    def _described(self) -> MatrixParts:
        described = MatrixParts()
        self.library.call("specdec_matrix_parts", self.pointer, ctypes.byref(described))
        return described

    @classmethod
    def of(cls, library: Library, modules: tuple[Any, ...], number_format: str) -> NativeLinear:
        """One product for several nn.Linear of the same input, outputs side by side; the one that
        holds their weights, where there is one."""
        bias = joined([module.bias for module in modules])
        bias = None if bias is None else floats(bias)
        home: NativeLinear | None = product_of(modules)
        for each in () if home is None else (home, *home.others):
            if each.library is not library or each.number_format != number_format:
                continue
            if bias is None or each.bias is None:
                same = bias is each.bias
            else:
                same = torch.equal(bias, each.bias)
            if same:
                return each
        weight = joined([numbers(module.weight) for module in modules])
        held = modules[0]._parameters.get("weight")
        assert weight is not None
        return cls(library, weight, bias, number_format, None if held is None else held.dtype)

    @property
    def stored(self) -> str:
        """How the weight is stored: its ``number_format``, or "halves" where fp16 holds fp32."""
        return STORED_AS[self._described().format]

    @property
    def nbytes(self) -> int:
        """Bytes of the packed weight."""
        return self.size * self.width * _STORED_BYTES[self.stored]

    def rows(self, ids: Tensor) -> Tensor:
        """[..., in] of long [...], rows of the weight as it was.

        Raises:
            UsageError: it was rounded when it was packed.
        """
        if not self.exact:
            problem = f"this weight exists in {self.number_format} alone (--verifier-dtype, "
            problem += "--drafter-dtype or specdec-convert pack), for its model only decodes"
            remedy = "load the checkpoint again, or decode with --keep-weights"
            raise UsageError("", problem, remedy)
        ids = ids.contiguous()
        rows = torch.empty(*ids.shape, self.width)
        self.library.call(
            "specdec_matrix_rows", self.pointer, ids.numel(), pointer(ids, torch.long),
            pointer(rows),
        )  # fmt: skip
        return rows.to(self.dtype)

    def __call__(self, x: Tensor) -> Tensor:
        """Float32 [.., out] of [.., in].

        Raises:
            ValueError: the rows of ``x`` are of another width.
        """
        x = x.float().contiguous()
        if x.size(-1) != self.width:
            raise ValueError(f"a product of {self.width} columns and rows of {x.size(-1)} numbers")
        y = torch.empty(*x.shape[:-1], self.size)
        self.library.call(
            "specdec_matrix_multiply", self.pointer, x.numel() // self.width, pointer(x),
            self.width, pointer(y), self.size, _STORE,
        )  # fmt: skip
        return y
