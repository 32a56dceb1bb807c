"""The tensors of a model folder: safetensors or pickles, whole or in several files."""

import json
import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fairseq_specdec.checkpoints.reading import load_pickle
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.printable import flat_message

from .folder import ModelFolder

# As transformers looks for them.
WHOLE = ("model.safetensors", "pytorch_model.bin")
LARGEST_HEADER = 100 << 20
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


class Weights:
    """The tensors by their names, each to be taken; what nobody took is asked for at the end."""

    def __init__(self, folder: ModelFolder) -> None:
        self.folder = folder
        self.files = _files(folder)
        self._tensors: dict[str, Tensor] = {}
        for name in self.files:
            path = folder.file(name)
            read = _safetensors if name.endswith(".safetensors") else _pickled
            self._tensors.update(read(path))
        self._left = set(self._tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def take(self, name: str, shape: Sequence[int | None]) -> Tensor:
        """A tensor."""
        tensor = self._tensors.get(name)
        if tensor is None:
            raise UsageError(self._where, f"lacks the weight {name}, which config.json asks for")
        self._left.discard(name)
        fits = tensor.dim() == len(shape) and all(
            size in (None, there) for size, there in zip(shape, tensor.shape)
        )
        if not fits:
            wanted = ["any" if size is None else size for size in shape]
            raise UsageError(
                self._where, f"{name} has shape {list(tensor.shape)}, config.json says {wanted}"
            )
        if tensor.dtype not in FLOATS:
            raise UsageError(
                self._where,
                f"{name} is of {tensor.dtype}",
                "convert the model before it was quantized",
            )
        return tensor

    def leave(self, name: str) -> None:
        """Do without a tensor, whether it is there or not."""
        self._left.discard(name)

    def refuse_rest(self) -> None:
        """Raise ValueError for a tensor that nobody took or left."""
        if self._left:
            raise UsageError(
                self._where,
                f"holds {sorted(self._left)[0]}, which no part of this family reads",
                "it is another model than config.json says",
            )

    @property
    def _where(self) -> str:
        more = ", ..." if len(self.files) > 1 else ""
        return os.path.join(self.folder.path, self.files[0]) + more


def _files(folder: ModelFolder) -> list[str]:
    for name in WHOLE:
        if folder.has(name):
            return [name]
        index = name + ".index.json"
        if folder.has(index):
            placed = folder.json(index).get("weight_map")
            if not isinstance(placed, dict) or not placed:
                raise UsageError(f"{folder.path}/{index}", "has no weight_map", "copy it again")
            names = sorted({str(each) for each in placed.values()})
            ending = os.path.splitext(name)[1]
            for each in names:
                folder.file(each)
                if not each.endswith(ending):
                    raise UsageError(f"{folder.path}/{index}", f"names {each}, no {ending} file")
            return names
    raise UsageError(folder.path, f"no weights in it ({', '.join(WHOLE)}, whole or in parts)")


def _safetensors(path: str) -> dict[str, Tensor]:
    _check_header(path)
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise UsageError(
            path, "reading it needs safetensors", "pip install 'fairseq-specdec[hf]'"
        ) from error
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, RuntimeError, ValueError, OverflowError) as error:
        raise UsageError(
            path, f"is damaged ({flat_message(error, 200)})", "copy it again"
        ) from error


def _check_header(path: str) -> None:
    """Refuse a header whose sizes are not those of the file, before anything is allocated."""
    size = os.path.getsize(path)
    with open(path, "rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > min(size - 8, LARGEST_HEADER):
            raise UsageError(
                path, f"its header claims {length} bytes, the file has {size}", "copy it again"
            )
        try:
            header = json.loads(stream.read(length))
            entries = {k: v for k, v in header.items() if k != "__metadata__"}
            ends = [each["data_offsets"][1] for each in entries.values()]
            longest = max(ends, default=0)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise UsageError(path, "its header is no list of tensors", "copy it again") from error
    if not isinstance(longest, int) or longest > size - 8 - length:
        raise UsageError(
            path,
            f"its header claims {longest} bytes of tensors, the file holds {size - 8 - length}",
            "copy it again",
        )


def _pickled(path: str) -> dict[str, Tensor]:
    try:
        state: Any = load_pickle(path)
    except (OSError, ValueError) as error:
        problem = error.problem if isinstance(error, UsageError) else flat_message(error, 200)
        raise UsageError(path, problem, "use a model.safetensors") from error
    if not isinstance(state, dict) or not all(isinstance(v, Tensor) for v in state.values()):
        raise UsageError(path, "holds something else than weights by their names")
    return dict(state)
