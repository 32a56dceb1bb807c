"""Random calls on the native library's sessions: blocks, verification, drafts, beam search."""

import ctypes

import torch
from native_calls import FLOATS, VALUES, Stack

from fairseq_specdec.engine.native import structures as of


class Session:
    """A session of a decoder's stack, and the calls on it.

    Attributes:
        rows: that it has been opened for and not lost since; 0 before.
    """

    def __init__(self, calls, stack):
        self.calls, self.stack, self.rows = calls, stack, 0
        self.pointer = calls.made("specdec_session_new", stack.pointer)

    def open(self, rows=None):
        calls, source = self.calls, self.calls.random.randint(1, 9)
        rows = rows or calls.random.randint(1, 4)
        states = calls.floats(rows, source, self.stack.source)
        if calls.call(
            "specdec_session_open", self.pointer, calls.size(rows), calls.size(source),
            calls.size(self.stack.source), states, calls.maybe(calls.marks(rows, source)),
            calls.size(calls.random.randint(1, 20)),
        ):  # fmt: skip
            self.rows = rows

    def select(self):
        calls = self.calls
        kept = sorted(calls.random.sample(range(self.rows), calls.random.randint(0, self.rows)))
        count = calls.size(len(kept))
        rows = calls.integers(len(kept)) if calls.random.random() < calls.odd else None
        numbers = (ctypes.c_int64 * max(1, len(kept)))(*kept)
        if calls.call("specdec_session_select", self.pointer, count, rows or numbers):
            self.rows = len(kept) if count else 0

    def _read(self):
        """(how many layers to read, their numbers)."""
        calls = self.calls
        count = calls.random.choice((0, 0, 1, self.stack.layers))
        numbers = [calls.size(calls.random.randint(1, self.stack.layers)) for _ in range(count)]
        return count, (ctypes.c_int32 * max(1, count))(*numbers)

    def run(self):
        calls, rows = self.calls, self.rows or 1
        width, upto, size = (
            calls.random.randint(1, 5),
            calls.random.randint(1, 20),
            self.stack.width,
        )
        wanted = width if calls.random.random() < 0.6 else calls.random.randint(1, width)
        count, read = self._read()
        states = calls.floats(rows, width, count * size) if count else None
        call = of.RunCall(
            calls.size64(rows), calls.size64(width), calls.size64(upto), calls.size64(size),
            calls.floats(rows, width, size), calls.integers(rows, width, most=upto - 1),
            calls.maybe(calls.marks(rows, width, upto)),
            calls.maybe(calls.integers(rows, width, most=upto)),
            calls.size64(wanted), count, read,
            calls.floats(rows, wanted, size), states,
        )  # fmt: skip
        if calls.random.random() < calls.odd:
            call.states = None
        calls.call("specdec_session_run", self.pointer, ctypes.byref(call))

    def rules(self, rows):
        calls, random = self.calls, self.calls.random
        width = random.choice((0, 0, 1, 4))
        symbols = [calls.size(random.randrange(self.stack.words), VALUES) for _ in range(3)]
        floats = [random.choice(FLOATS) if random.random() < calls.odd else 1.0 for _ in range(3)]
        return of.Rules(
            *symbols, calls.size(random.randint(0, 3), VALUES), calls.size(9, VALUES), *floats[:2],
            random.choice((0, 1, 3)), floats[2], random.choice((0.0, 2.0)),
            calls.maybe(calls.integers(rows, width, most=self.stack.words - 1)),
            calls.size(width, (0, -1, 2**62, -(2**63))), calls.maybe(calls.integers(rows, most=9)),
        )  # fmt: skip

    def hypotheses(self, rows, columns):
        calls, most = self.calls, max(0, columns - 8)
        return of.Hypotheses(
            calls.size(columns, (0, -1, -(2**63))),
            calls.integers(rows, columns, most=self.stack.words - 1), calls.floats(rows, columns),
            calls.integers(rows, most=most), None,
        )  # fmt: skip

    def verify(self, drafter=None):
        """Verification of given drafts, of none several times, of what a drafter drafts, or of
        copies of the source."""
        calls, random, rows = self.calls, self.calls.random, self.rows or 1
        width, columns = random.choice((0, 1, 4)), random.randint(12, 24)
        copies = random.random() < 0.3
        drafts = copies or drafter is not None
        most = random.randint(1, 4) if drafts or not width else 1
        width = width or int(drafts)
        count, read = self._read()
        states = calls.floats(rows, columns, count * self.stack.width)
        hypotheses = self.hypotheses(rows, columns)
        if random.random() < 0.3:
            hypotheses.spent = calls.pointer_of_doubles(rows)
        drafting = None
        if drafter is not None:
            drafting = drafter.drafting(rows, width)
        if copies:
            drafting = self.copying(rows, width)
        call = of.VerifyCall(
            self.stack.embedding(), self.rules(rows),
            of.Drafts(
                calls.size64(rows), calls.size64(width),
                calls.integers(rows, width, most=self.stack.words - 1),
                calls.integers(rows, most=width),
            ),
            hypotheses, count, read, calls.size64(most),
            of.StepOutputs(
                calls.integers(most, rows, 4), calls.integers(most, rows, width),
                calls.maybe(calls.integers(most, rows, width + 1)),
                calls.pointer_of_doubles(2 * most), states if count else None,
                calls.size64(columns),
            ),
            drafting and ctypes.pointer(drafting),
        )  # fmt: skip
        if random.random() < calls.odd:
            call.outputs.states = None
        calls.call("specdec_verify", self.pointer, ctypes.byref(call))

    def copying(self, rows, block):
        """Drafts that are copied from the source."""
        calls, random = self.calls, self.calls.random
        ends = torch.randint(1, 9, (rows,)).cumsum(0)
        tokens = calls.integers(int(ends[-1]), most=self.stack.words - 1)
        if random.random() < calls.odd:
            ends[random.randrange(rows)] = random.choice((0, -1, -(2**63)))
        copy = of.SourceCopy(
            calls.size64(rows), calls.pointer(torch.arange(rows)), tokens, calls.pointer(ends),
            calls.size64(random.randint(0, 3)), random.randint(0, 1), calls.integers(rows, most=9),
            calls.integers(rows, most=9),
        )  # fmt: skip
        calls.kept.append(copy)
        return of.Drafting(copy=ctypes.addressof(copy), block=calls.size64(block))

    def search(self):
        """Beam search to its end, or some passes of it."""
        calls, random = self.calls, self.calls.random
        setup = of.BeamSetup(
            self.stack.embedding(), self.rules(self.rows or 1), calls.size64(random.randint(1, 10)),
            calls.size64(random.randrange(self.stack.words)),
        )  # fmt: skip
        beams = calls.made("specdec_beams_new", self.pointer, ctypes.byref(setup))
        if beams is None:
            return
        rows = self.rows or 1
        if random.random() < 0.5:
            count = random.randint(0, 6)
            calls.call(
                "specdec_beams_look_ahead", beams, calls.size(random.randrange(rows)),
                calls.size(count), calls.integers(count, most=self.stack.words - 1),
                calls.size(random.randint(0, 4)), calls.size(random.randint(0, 4)),
            )  # fmt: skip
        for _ in range(random.randint(1, 4)):
            passes = ctypes.c_int64()
            most = calls.size(random.randint(1, 30), (0, -1, -(2**63)))
            calls.call("specdec_beams_run", beams, most, ctypes.byref(passes))
            if random.random() < calls.odd:
                random.choice((self.select, self.open))()
        self._look_at(beams, rows)

    def _look_at(self, beams, rows):
        calls, random = self.calls, self.calls.random
        facts = of.BeamFacts()
        row, room = calls.size(random.randrange(rows)), random.choice((0, 1, 64))
        if not calls.call("specdec_beams_facts", beams, row, ctypes.byref(facts)):
            return
        tokens, length = calls.integers(room), ctypes.c_int64()
        number = calls.size(random.randint(0, 3))
        prefix = of.PrefixFacts()
        calls.call("specdec_beams_prefix", beams, row, random.randint(0, 1), number, room, tokens,
                   ctypes.byref(prefix))  # fmt: skip
        calls.call("specdec_beams_ended", beams, row, number, room, tokens, calls.floats(room + 1),
                   ctypes.byref(length))  # fmt: skip


class Drafter:
    """A block drafter, with the stack and session of its own."""

    def __init__(self, calls, verifier, rows):
        random, self.calls = calls.random, calls
        self.stack = Stack(calls, like=verifier if random.random() < 0.9 else None)
        self.pointer, self.read_layers = None, 0
        if not self.stack.ready:
            return
        self.session = Session(calls, self.stack)
        self.session.open(rows if random.random() < 0.9 else None)
        width = self.stack.width
        self.pointer = calls.made(
            "specdec_drafter_new", self.stack.pointer, calls.size(width), calls.floats(width),
            calls.size(random.randrange(self.stack.words)),
        )  # fmt: skip
        if self.pointer is not None and random.random() < 0.5:
            layers = random.randint(1, 3)
            matrix = calls.matrix(2 * width, layers * width)
            if matrix is not None and calls.call(
                "specdec_drafter_states", self.pointer, calls.size(layers), matrix
            ):
                self.read_layers = layers
        if self.pointer is not None and random.random() < 0.5:
            self._chain(random.choice((1, 8, 19)))
        self.words = None
        if self.pointer is not None and random.random() < 0.5:
            self._lists(self.session.rows or 1)

    def _lists(self, rows):
        """Lists of words, at times of other rows, or of words that are not there."""
        calls, random = self.calls, self.calls.random
        if random.random() < 0.9:
            calls.call("specdec_drafter_lists", self.pointer)
        self.words = calls.made("specdec_words_new")
        most = random.choice((2, self.stack.words))
        for _ in range(random.randint(1, 2)):
            rows = rows if random.random() < 0.9 else rows + 1
            sizes = torch.randint(1, most + 1, (rows,))
            lists = [torch.randperm(self.stack.words)[:size].sort().values for size in sizes]
            # Room for as many words as a refused size asks for at most.
            ids = torch.cat([*lists, torch.zeros(rows * (self.stack.words + 1)).long()])
            for tensor in (sizes, ids):
                if random.random() < calls.odd:
                    tensor[random.randrange(len(tensor))] = random.choice((0, -1, 2**24, 2**62))
            calls.call(
                "specdec_words_open", self.words, self.pointer, calls.size(rows, (0, -1, -(2**31))),
                calls.pointer(sizes), calls.pointer(ids),
            )  # fmt: skip
        if random.random() < 0.3:
            count = random.randint(0, rows)
            calls.call(
                "specdec_words_select", self.words, calls.size(count, (-1, 2**24)),
                calls.pointer(torch.arange(rows + 1)),
            )  # fmt: skip

    def _chain(self, width):
        calls, words = self.calls, self.stack.words + 1
        calls.call(
            "specdec_drafter_chain", self.pointer, calls.size(width, (0, -1, -(2**31))),
            calls.floats(width, self.stack.width), calls.maybe(calls.floats(width)),
            calls.floats(width, width), calls.floats(words, width), calls.floats(words, width),
        )  # fmt: skip

    def drafting(self, rows, block):
        calls, random = self.calls, self.calls.random
        stride = 24  # as many columns as hypotheses have
        states = None
        if self.read_layers and random.random() < 0.7:
            states = calls.floats(rows, stride, self.read_layers * self.stack.width)
        return of.Drafting(
            self.pointer, self.session.pointer, None, self.stack.embedding(),
            calls.size(block, (0, -1, 2**24, 2**62, -(2**63))),
            calls.size64(random.choice((-1, 12))), states,
            calls.size(stride, (0, -1, -(2**63))),
            calls.size(random.randint(1, 4), (0, -1, 2**31 - 1)), random.choice((0.0, 0.2, 2.0)),
            calls.maybe(calls.floats(block + 1)), self.words,
        )  # fmt: skip

    def draft(self):
        calls, rows = self.calls, self.session.rows or 1
        block, columns = calls.random.randint(1, 5), calls.random.randint(12, 24)
        drafting, outputs = self.drafting(rows, block), self.session.hypotheses(rows, columns)
        calls.call(
            "specdec_draft", ctypes.byref(drafting), rows, ctypes.byref(outputs),
            calls.integers(rows, block), calls.integers(rows),
        )  # fmt: skip
