"""Guards the code for GPUs where there is none.

Inside ``with DeviceGuard() as guard`` tensors are computed on the CPU and *say* where they lie: on
the CPU, or on ``cuda:0`` where the program asked for that. An operator over tensors of both raises
``MixedDevicesError``. A function mode answers for a tensor's device, a dispatch mode follows it
through every operator, forward and backward. Noted, by file and line of the package:

* ``waits``: whatever makes the host wait for a GPU (``.item()``, ``bool()``, ``.tolist()``,
  ``nonzero``, indexing by a bool mask, a blocking copy);
* ``copies``: copies between host and device, blocking or not;
* ``launches``: operators that start a kernel; views and allocations start none.

Not seen: which kernels CUDA takes, several kernels of one operator, numerics, streams, memory.
"""

import collections
import sys
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)

PACKAGE = "/fairseq_specdec/"  # the innermost line in such a folder is blamed
# Operators that start no kernel: they look at memory in another way, or allocate it.
NO_KERNEL = frozenset(
    """
    alias as_strided chunk detach detach_ diagonal empty empty_like empty_strided expand is_nonzero
    is_same_size lift_fresh _local_scalar_dense narrow new_empty new_empty_strided permute real
    _reshape_alias resize_ select set_ slice split split_with_sizes squeeze squeeze_ sym_size t t_
    transpose transpose_ unbind unflatten unfold _unsafe_view unsqueeze unsqueeze_ view view_as_real
    """.split()
)
# Those that start one only where they copy.
MAYBE_A_COPY = frozenset("contiguous flatten float half reshape reshape_as to type_as".split())
# Those after which the host knows a number that the device computed.
READ_BACK = frozenset(
    """
    allclose bincount equal is_nonzero _local_scalar_dense masked_select multinomial nonzero
    nonzero_numpy _unique2 unique_consecutive unique_dim
    """.split()
)
INDEXING = frozenset("index index_put index_put_ _index_put_impl_".split())
BETWEEN_DEVICES = frozenset("copy_ _to_copy".split())
# Python functions that make a tensor from none.
FACTORIES = frozenset(
    """
    arange as_tensor empty empty_strided eye from_numpy full linspace ones rand randint randn
    randperm range scalar_tensor tensor zeros
    """.split()
)


def placed(device):
    """CPU or CUDA: what a program names by text, number or device."""
    return CPU if torch.device(device).type == "cpu" else CUDA


class MixedDevicesError(RuntimeError):
    """An operator over tensors of two devices."""


class PretendedEvent:
    """Stands for ``torch.cuda.Event``."""

    def __init__(self, enable_timing=False):
        self.recorded = False

    def record(self, stream=None):
        self.recorded = True

    def synchronize(self):
        assert self.recorded

    def elapsed_time(self, other):
        assert self.recorded and other.recorded
        return 1.0


class _Operators(TorchDispatchMode):
    """Hands every operator to the guard."""

    def __init__(self, guard):
        super().__init__()
        self.guard = guard

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunction():
            return self.guard.operator(func, args, kwargs or {})


class DeviceGuard(TorchFunctionMode):
    """See the module. ``clear()`` empties what was noted."""

    def __init__(self):
        super().__init__()
        self._there = {}  # storages on the device; a weak reference keeps the address from reuse
        self._making = None  # device of the tensor that a Python function is making
        self._operators = _Operators(self)
        self._patches = []
        self.clear()

    def clear(self):
        """Forget all that was noted."""
        self.waits = collections.Counter()
        self.copies = collections.Counter()
        self.kernels = collections.Counter()  # (line, operator)

    @property
    def launches(self):
        return sum(self.kernels.values())

    def __enter__(self):
        from fairseq_specdec.engine import state  # imported before fairseq, it is no plugin

        for table in (state.ascending_table, state.causal_table):
            table.cache_clear()  # it is on the device of another guard
        stream = mock.patch.object(torch.cuda, "current_stream", lambda device=None: device)
        self._patches = [mock.patch.object(torch.cuda, "Event", PretendedEvent), stream]
        for patch in self._patches:
            patch.start()
        self._operators.__enter__()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self._operators.__exit__(*error)
        for patch in self._patches:
            patch.stop()

    # ---- where tensors lie -----------------------------------------------------------------------

    def device_of(self, tensor):
        """CPU or CUDA."""
        with torch._C.DisableTorchFunction():
            return CUDA if tensor.untyped_storage()._cdata in self._there else CPU

    def put(self, tensor, device):
        """Say where a tensor lies, and all that shares its memory."""
        with torch._C.DisableTorchFunction():
            storage = tensor.untyped_storage()
            if device is CUDA:
                self._there[storage._cdata] = storage._weak_ref()
            else:
                self._there.pop(storage._cdata, None)
        return tensor

    def line(self):
        """Where the package is: file and line of its innermost frame, else of any caller."""
        frame, other = sys._getframe(1), None
        while frame is not None:
            name = frame.f_code.co_filename
            if PACKAGE in name:
                return f"{name.split(PACKAGE)[-1]}:{frame.f_lineno}"
            if other is None and name != __file__ and "/torch/" not in name:
                other = f"{name}:{frame.f_lineno}"
            frame = frame.f_back
        return other or "torch"

    # ---- operators -------------------------------------------------------------------------------

    def operator(self, func, args, kwargs):
        """Run an operator, note what it would do to a GPU, and say where its results lie."""
        name = func._schema.name.split("::")[-1]
        tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, torch.Tensor)]
        on = [self.device_of(x) for x in tensors]
        device = CUDA if CUDA in on else CPU
        if device is CUDA and CPU in on:
            device = self._both(name, tensors, on)
        if self._making is not None and name not in ("lift_fresh", "detach"):
            device = self._making
        if CUDA in on:
            self._note_waits(name, args)
        before = {x.untyped_storage()._cdata for x in tensors}
        result = func(*args, **kwargs)
        made = [x for x in tree_flatten(result)[0] if isinstance(x, torch.Tensor)]
        new = [x for x in made if x.untyped_storage()._cdata not in before]
        for x in new:
            self.put(x, device)
        filled = any(x.numel() > 0 for x in made)  # else CUDA starts nothing either
        if (CUDA in on or device is CUDA) and filled and name not in NO_KERNEL:
            if new or name not in MAYBE_A_COPY:
                self.kernels[self.line(), name] += 1
        return result

    def _both(self, name, tensors, on):
        """An operator over tensors of both devices: the device of its result."""
        if name in BETWEEN_DEVICES:
            self._note_copy("a copy between devices", blocking=True)
            return on[0]
        if name in INDEXING and on[0] is CUDA:
            self._note_copy("an index from the host", blocking=True)
        elif any(x.dim() > 0 for x, place in zip(tensors, on) if place is CPU):
            shapes = [f"{place.type} {list(x.shape)}" for x, place in zip(tensors, on)]
            raise MixedDevicesError(f"{self.line()} {name} of {', '.join(shapes)}")
        return CUDA

    def _note_waits(self, name, args):
        if name in READ_BACK:
            self.waits[f"{self.line()} {name}"] += 1
        if name in INDEXING:
            masks = [x for x in args[1] if x is not None and x.dtype in (torch.bool, torch.uint8)]
            # A single value is filled in where the mask says, which needs no positions.
            filled = name != "index" and len(args) > 2 and args[2].numel() == 1
            if masks and not filled:
                self.waits[f"{self.line()} {name} by a bool mask"] += 1

    def _note_copy(self, what, blocking):
        self.copies[f"{self.line()} {what}"] += 1
        if blocking:
            self.waits[f"{self.line()} {what}"] += 1

    # ---- Python's functions ----------------------------------------------------------------------

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        of_tensor = bool(args) and isinstance(args[0], torch.Tensor)
        if name == "__get__":
            asked = getattr(getattr(func, "__self__", None), "__name__", "")
            if asked in ("device", "is_cuda", "is_cpu"):
                device = self.device_of(args[0])
                return device if asked == "device" else device.type == asked[len("is_") :]
        if name == "_parse_to":  # of Module.to, whose tensors' own .to follow
            return func(*args, **kwargs)
        if of_tensor and name in ("to", "cuda", "cpu", "type_as"):
            return self._move(name, args, kwargs)
        if of_tensor and name in ("tolist", "numpy", "__array__"):
            if self.device_of(args[0]) is CUDA and (name != "tolist" or args[0].dim() > 0):
                self.waits[f"{self.line()} {name}"] += 1
        return self._make(func, name, of_tensor, args, kwargs)

    def _make(self, func, name, of_tensor, args, kwargs):
        """Run a function; what it makes lies where its ``device`` says."""
        device = None
        if kwargs.get("device") is not None:
            device = placed(kwargs["device"])
            kwargs["device"] = CPU
        elif not of_tensor and name in FACTORIES:
            device = CPU
        if name == "tensor" and device is CUDA:
            self._note_copy("torch.tensor on the device", blocking=True)
        before, self._making = self._making, device or self._making
        try:
            result = func(*args, **kwargs)
        finally:
            self._making = before
        if name in ("tensor", "as_tensor", "from_numpy") and device is not None:
            self.put(result, device)
        return result

    def _move(self, name, args, kwargs):
        """``to``, ``cuda``, ``cpu`` and ``type_as`` of a tensor."""
        x, rest = args[0], list(args[1:])
        target = {"cuda": CUDA, "cpu": CPU}.get(name)
        if name in ("to", "type_as"):
            for i, value in enumerate(rest):
                if isinstance(value, torch.Tensor):
                    target = self.device_of(value)
                elif isinstance(value, (str, torch.device)):
                    target, rest[i] = placed(value), CPU
            if kwargs.get("device") is not None:
                target, kwargs["device"] = placed(kwargs["device"]), CPU
        moved = target is not None and target is not self.device_of(x)
        if moved:
            free = bool(kwargs.get("non_blocking", False)) and target is CUDA
            self._note_copy(f"to {target.type} {list(x.shape)}", blocking=not free)
        before, self._making = self._making, target if moved else self._making
        try:
            moved_to = getattr(x, name)(*rest, **kwargs) if name in ("to", "type_as") else x
            if moved and moved_to.untyped_storage()._cdata == x.untyped_storage()._cdata:
                moved_to = x.clone()
        finally:
            self._making = before
        return self.put(moved_to, target) if moved else moved_to


def on_device(value):
    """A batch (tensors in dictionaries) moved to the pretended device."""
    if isinstance(value, dict):
        return {name: on_device(part) for name, part in value.items()}
    return value.to("cuda") if isinstance(value, torch.Tensor) else value
