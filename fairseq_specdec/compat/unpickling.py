"""Reading pickles of checkpoints: the instructions that they need, and no others."""

import pickle
import struct
from collections.abc import Callable
from pickle import UnpicklingError
from typing import IO, Any

from fairseq_specdec.io.printable import flat_message

from .unpickling_objects import Named, Objects, scalar

_LINE = 200  # bytes of the longest module or class name, with the end of its line
_ERRORS = (
    LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError, MemoryError,
    AssertionError, struct.error,
)  # fmt: skip


class Unpickler:
    """A reader of the pickles that ``torch.save`` writes (protocol 2).

    It knows 31 instructions, which are those of fairseq's checkpoints; a file that holds another is
    refused. Nothing is imported and nothing of the file is called: names are looked up in
    ``Objects``, which checks the arguments of each and makes the object itself.

    Args:
        stream: at the start of a pickle; left after its end.
        limit: bytes of the file; nothing in it is longer.
        objects: what may be made.
        storage: makes a tensor's storage from the file's description of it.
    """

    def __init__(
        self, stream: IO[bytes], limit: int, objects: Objects, storage: Callable[[Any], Any]
    ) -> None:
        self._stream = stream
        self._limit = limit
        self._objects = objects
        self._storage = storage
        self._stack: list[Any] = []
        self._marked: list[list[Any]] = []
        self._memo: dict[int, Any] = {}

    def load(self) -> Any:
        try:
            while True:
                code = self._take(1)
                if code == pickle.STOP:
                    return self._only()
                step = _STEPS.get(code)
                if step is None:
                    raise UnpicklingError(f"it holds {code!r}, an instruction no checkpoint needs")
                step(self)
        except _ERRORS as error:
            raise UnpicklingError(f"{type(error).__name__}: {flat_message(error, 200)}") from error

    def _take(self, count: int) -> bytes:
        data = self._stream.read(count) if count <= self._limit else b""
        if len(data) != count:
            raise UnpicklingError("it ends too early")
        return data

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _line(self) -> str:
        line = self._stream.readline(_LINE)
        if not line.endswith(b"\n"):
            raise UnpicklingError("it holds a name without an end")
        return line[:-1].decode("ascii")

    def _only(self) -> Any:
        if self._marked or len(self._stack) != 1:
            raise UnpicklingError("it is no pickle of one object")
        return self._stack[0]

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _since_mark(self) -> list[Any]:
        items, self._stack = self._stack, self._marked.pop()
        return items

    def _protocol(self) -> None:
        protocol = self._number("B")
        if protocol != 2:
            raise UnpicklingError(f"its pickle protocol is {protocol}; torch.save writes 2")

    def _global(self) -> None:
        self._push(self._objects.named(self._line(), self._line()))

    def _text(self) -> None:
        self._push(self._take(self._number("<I")).decode("utf-8", "surrogatepass"))

    def _long(self) -> None:
        self._push(int.from_bytes(self._take(self._number("B")), "little", signed=True))

    def _mark(self) -> None:
        self._marked.append(self._stack)
        self._stack = []

    def _last(self, count: int) -> None:
        if len(self._stack) < count:
            raise UnpicklingError("it asks for more than there is")
        self._stack[-count:] = [tuple(self._stack[-count:])]

    def _put(self, form: str) -> None:
        self._memo[self._number(form)] = self._stack[-1]

    def _get(self, form: str) -> None:
        self._push(self._memo[self._number(form)])

    def _extend(self, items: list[Any]) -> None:
        into = self._stack[-1]
        if type(into) is not list:
            raise UnpicklingError(f"it appends to a {type(into).__name__}, no list")
        into.extend(items)

    def _update(self, items: list[Any]) -> None:
        into = self._stack[-1]
        if type(into) not in self._objects.mappings:
            raise UnpicklingError(f"it writes into a {type(into).__name__}, no dictionary")
        if len(items) % 2:
            raise UnpicklingError("it holds a key without a value")
        for key, value in zip(items[::2], items[1::2]):
            # Deeply nested tuples as keys end the process: their hash recurses unchecked.
            if not scalar(key):
                raise UnpicklingError(f"it has a {type(key).__name__} for a key")
            into[key] = value

    def _called(self) -> tuple[Named, Any]:
        arguments, what = self._stack.pop(), self._stack.pop()
        if type(what) is not Named or type(arguments) is not tuple:
            raise UnpicklingError(f"it calls a {type(what).__name__}; it was not run")
        return what, arguments

    def _reduce(self) -> None:
        self._push(self._objects.call(*self._called()))

    def _new(self) -> None:
        self._push(self._objects.new(*self._called()))

    def _build(self) -> None:
        state = self._stack.pop()
        self._objects.build(self._stack[-1], state)

    def _persistent(self) -> None:
        self._push(self._storage(self._stack.pop()))


_STEPS: dict[bytes, Callable[[Unpickler], None]] = {
    pickle.PROTO: Unpickler._protocol,
    # values
    pickle.NONE: lambda self: self._push(None),
    pickle.NEWTRUE: lambda self: self._push(True),
    pickle.NEWFALSE: lambda self: self._push(False),
    pickle.BININT: lambda self: self._push(self._number("<i")),
    pickle.BININT1: lambda self: self._push(self._number("B")),
    pickle.BININT2: lambda self: self._push(self._number("<H")),
    pickle.LONG1: Unpickler._long,
    pickle.BINFLOAT: lambda self: self._push(self._number(">d")),
    pickle.BINUNICODE: Unpickler._text,
    # containers
    pickle.EMPTY_TUPLE: lambda self: self._push(()),
    pickle.EMPTY_LIST: lambda self: self._push([]),
    pickle.EMPTY_DICT: lambda self: self._push({}),
    pickle.MARK: Unpickler._mark,
    pickle.TUPLE: lambda self: self._push(tuple(self._since_mark())),
    pickle.TUPLE1: lambda self: self._last(1),
    pickle.TUPLE2: lambda self: self._last(2),
    pickle.TUPLE3: lambda self: self._last(3),
    pickle.APPEND: lambda self: self._extend([self._stack.pop()]),
    pickle.APPENDS: lambda self: self._extend(self._since_mark()),
    pickle.SETITEM: lambda self: self._update([self._stack.pop(), self._stack.pop()][::-1]),
    pickle.SETITEMS: lambda self: self._update(self._since_mark()),
    # what was read before
    pickle.BINPUT: lambda self: self._put("B"),
    pickle.LONG_BINPUT: lambda self: self._put("<I"),
    pickle.BINGET: lambda self: self._get("B"),
    pickle.LONG_BINGET: lambda self: self._get("<I"),
    # objects
    pickle.GLOBAL: Unpickler._global,
    pickle.REDUCE: Unpickler._reduce,
    pickle.NEWOBJ: Unpickler._new,
    pickle.BUILD: Unpickler._build,
    pickle.BINPERSID: Unpickler._persistent,
}
