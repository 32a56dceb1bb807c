"""Random calls of the native library's functions: sound ones, and ones with a number out of range.

Every buffer has exactly the size that its call names, so that AddressSanitizer sees one step too
far. A size that is replaced is one that no buffer could have: nothing may be read for it.
"""

import ctypes

import torch

from fairseq_specdec.engine.native import structures as of

ODD = (0, -1, 2**24, 2**31 - 1, -(2**31))
ODD_64 = (*ODD, 2**32, 2**62, 2**63 - 1, -(2**63))
VALUES = (0, -1, 1, 3, 2**24, 2**31 - 1, -(2**31))
FLOATS = (0.0, 1.0, -1.0, 0.5, 1e-38, 1e38, float("inf"), float("-inf"), float("nan"))


class Calls:
    """The handles of one case and what is called on them.

    Attributes:
        done: the names of the functions that did what was asked.

    Args:
        library: the loaded library.
        random: where all choices come from.
        odd: how likely it is that a number is replaced.
        counts: of each outcome of a call, how often; filled.
    """

    def __init__(self, library, random, odd, counts):
        self.library, self.random, self.odd, self.counts = library, random, odd, counts
        self.kept, self.freed, self.done = [], [], set()

    def call(self, name, *arguments):
        """Whether it was done; ValueError and the like are an answer."""
        try:
            self.library.call(name, *arguments)
        except (ValueError, MemoryError, RuntimeError) as error:
            assert str(error).isprintable() and str(error)
            self.counts["refused"] += 1
            return False
        self.counts["done"] += 1
        self.done.add(name)
        return True

    def made(self, name, *arguments):
        """The handle that a call makes; None where it is refused."""
        handle = ctypes.c_void_p()
        if not self.call(name, *arguments, ctypes.byref(handle)):
            return None
        self.freed.append((name.replace("_new", "_free"), handle))
        return handle

    def close(self):
        for name, handle in reversed(self.freed):
            self.library.free(name, handle)

    def size(self, number, odd=ODD):
        """``number``, or one that is refused."""
        return self.random.choice(odd) if self.random.random() < self.odd else number

    def size64(self, number):
        return self.size(number, ODD_64)

    def maybe(self, pointer):
        """The pointer, or null where that is allowed."""
        return pointer if self.random.random() < 0.5 else None

    def floats(self, *shape):
        values = torch.randn(*shape)
        if values.numel() and self.random.random() < self.odd:
            values.view(-1)[self.random.randrange(values.numel())] = self.random.choice(FLOATS)
        return self.pointer(values)

    def integers(self, *shape, least=0, most=1):
        """Numbers of the range, one of them out of it at times."""
        values = torch.randint(least, max(most, least) + 1, shape)
        if values.numel() and self.random.random() < self.odd:
            values.view(-1)[self.random.randrange(values.numel())] = self.random.choice(ODD_64)
        return self.pointer(values)

    def marks(self, *shape):
        return self.pointer(torch.rand(*shape) < self.random.choice((0.0, 0.3, 1.0)))

    def pointer_of_doubles(self, count):
        return self.pointer(torch.zeros(count).double())

    def pointer(self, tensor):
        self.kept.append(tensor)
        return tensor.data_ptr()

    def matrix(self, out, width):
        """A handle of an [out, width] matrix, at times of another size."""
        out, width = (max(1, n + (self.random.random() < self.odd)) for n in (out, width))
        weight = torch.randn(out, width)
        if self.random.random() < 0.3:
            weight = weight.half().float()
        numbers = self.random.choice((0, 0, 1, 2))
        weight = weight.to((torch.float32, torch.half, torch.bfloat16)[numbers])
        return self.made(
            "specdec_matrix_new", self.size(out, (0, -1)), self.size(width, (0, -1)),
            self.pointer(weight), self.size(numbers, (3, -1, 9)), self.maybe(self.floats(out)),
            self.size(self.random.choice((0, 0, 0, 1, 2)), (3, -1, 9)),
        )  # fmt: skip

    def borrowed(self, matrix, rows, x, x_stride, y, y_stride):
        """A matrix in the memory of another, at times described otherwise."""
        parts, handle = of.MatrixParts(), ctypes.c_void_p()
        self.call("specdec_matrix_parts", matrix, ctypes.byref(parts))
        for name in ("out", "in", "format", "words_size", "outputs"):
            setattr(parts, name, self.size64(getattr(parts, name)))
        for name in ("words", "bias", "scales", "offsets"):
            setattr(parts, name, self.size(getattr(parts, name), (None,)))
        if self.call("specdec_matrix_borrow", ctypes.byref(parts), ctypes.byref(handle)):
            self.freed.append(("specdec_matrix_free", handle))
            self.call("specdec_matrix_multiply", handle, rows, x, x_stride, y, y_stride, 0)

    def products(self):
        """A matrix by itself."""
        out, width, rows = (self.random.randint(1, 70) for _ in range(3))
        threads = self.size(self.random.randint(1, 2), (0, -1, 1025, 2**31 - 1))
        self.call("specdec_set_threads", threads)
        matrix = self.matrix(out, width)
        if matrix is None:
            return
        out, width = out + 1, width + 1  # it may be of one more
        room = (self.size(width + 2, (0, -1, -(2**31))), self.size(out + 2, (0, -1, -(2**31))))
        x, y = self.floats(rows, width + 2), self.floats(rows, out + 2)
        after = self.size(self.random.randint(0, 2), (-1, 3, 2**31 - 1))
        self.call("specdec_matrix_multiply", matrix, self.size(rows, (0, -1)), x, room[0], y,
                  room[1], after)  # fmt: skip
        self.borrowed(matrix, rows, x, width + 1, y, out + 1)
        numbers = self.integers(rows, most=out - 2)
        self.call("specdec_matrix_rows", matrix, self.size(rows, (0, -1, -(2**63))), numbers,
                  self.floats(rows, width))  # fmt: skip


class Stack:
    """A stack of random structure and its sessions.

    Attributes:
        ready: it was finished.
    """

    def __init__(self, calls, decoder=True, like=None):
        random, self.calls = calls.random, calls
        self.heads = random.choice((1, 2, 3))
        self.width = like.width if like else self.heads * random.choice((1, 4, 7, 16))
        self.heads = like.heads if like else self.heads
        self.layers, self.inner = random.randint(1, 3), random.choice((1, 7, 32, 65))
        self.source, self.features = random.choice((self.width, 5)), self.width
        self.decoder = decoder
        self.words = like.words if like else random.randint(8, 70)
        if random.random() < 0.1:
            self.features = random.choice((3, 33))
        shape = of.Shape(
            calls.size(self.layers, (0, -1, -(2**31), 2**24)), calls.size(self.width),
            calls.size(self.inner), calls.size(self.heads), int(decoder),
            calls.size(int(decoder), (0, 1)), random.randint(0, 1),
            calls.size(random.randint(0, 6), (-1, 7)), calls.size(self.source),
            calls.size(self.features),
        )  # fmt: skip
        self.pointer = calls.made("specdec_stack_new", ctypes.byref(shape))
        self.ready = self.pointer is not None and self._filled()

    def _filled(self):
        calls, width = self.calls, self.width
        sizes = (
            (3 * width, width), (width, width), (width, width), (2 * width, self.source),
            (width, width), (self.inner, width), (width, self.inner), (self.words, self.features),
        )  # fmt: skip
        for layer in range(self.layers):
            for part, size in enumerate(sizes):
                if 2 <= part <= 4 and not self.decoder or part == 7 and layer:
                    continue
                matrix = calls.matrix(*size)
                if matrix is not None:
                    calls.call("specdec_stack_matrix", self.pointer, calls.size(layer),
                               calls.size(part), matrix)  # fmt: skip
            for part in (0, 2, 3) if not self.decoder else range(4):
                calls.call(
                    "specdec_stack_norm", self.pointer, calls.size(layer), calls.size(part),
                    calls.size(width), calls.floats(width), calls.floats(width), 1e-5,
                )  # fmt: skip
        return calls.call("specdec_stack_finish", self.pointer)

    def embedding(self):
        """Tables of the stack's words and of some places."""
        calls, places = self.calls, self.calls.random.randint(1, 9)
        tokens, packed = calls.floats(self.words, self.width), None
        if calls.random.random() < 0.3:
            tokens, packed = None, calls.matrix(self.words, self.width)
        return of.Embedding(
            tokens, packed, calls.maybe(calls.floats(places, self.width)), calls.size64(self.words),
            calls.size(places, (0, -1, -(2**63))), calls.size64(self.width), 1.5,
        )  # fmt: skip

    def encode(self):
        calls = self.calls
        rows, source = calls.random.randint(1, 3), calls.random.randint(1, 9)
        x = calls.floats(rows, source, self.width)
        calls.call("specdec_encode", self.pointer, calls.size(rows), calls.size(source),
                   calls.size(self.width), x, calls.maybe(calls.marks(rows, source)))  # fmt: skip

    def logits(self):
        calls, count = self.calls, self.calls.random.randint(1, 5)
        calls.call(
            "specdec_logits", self.pointer, calls.size(count), calls.size(self.features),
            calls.floats(count, self.features), calls.floats(count, self.words + 1),
        )  # fmt: skip
