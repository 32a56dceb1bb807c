"""The queue: its bound, deadlines, cancellation, the end."""

import threading
import time

import pytest
from starlette.exceptions import HTTPException

from fairseq_specdec.serve.scheduler import Scheduler

SOON = 1e9


class Decoder:
    """Gives the sum of a row, once it is let go; notes what was decoded together."""

    def __init__(self):
        self.batches = []
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def __call__(self, rows, drafts):
        self.batches.append(rows)
        self.begun.set()
        assert self.go_on.wait(60)
        for i, row in enumerate(rows):
            if row == [13]:
                raise ArithmeticError("thirteen")
            yield i, sum(row)


@pytest.fixture
def decoder():
    return Decoder()


@pytest.fixture
def make(decoder):
    """Makes a scheduler of one thread that is busy with the row [0]."""
    made = []

    def busy(**settings):
        usual = {"workers": 1, "most_wait": 50, "pace": 1.0, "widest": 4, "smallest": lambda: 3}
        scheduler = Scheduler(decoder, **{**usual, **settings})
        made.append(scheduler)
        first = submit(scheduler, [0])
        assert decoder.begun.wait(60)
        return scheduler, first[0]

    yield busy
    decoder.go_on.set()
    for each in made:
        each.stop()


def submit(scheduler, *rows, within=SOON):
    return scheduler.submit(list(rows), time.monotonic() + within)


def test_what_cannot_end_in_time_is_not_begun(make):
    scheduler, _ = make()
    with pytest.raises(HTTPException, match="504"):
        submit(scheduler, *[[1, 2]] * 10, within=5)
    assert len(submit(scheduler, [1, 2], within=5)) == 1


def test_what_would_wait_too_long_is_refused(make, decoder):
    """By the time that tokens take, whatever their number of sentences."""
    scheduler, _ = make(most_wait=5.0, pace=0.5)
    submit(scheduler, [1] * 9)  # 10 tokens wait or run: 5 s
    assert scheduler.expected_wait() == 5.0
    submit(scheduler, [1])
    with pytest.raises(HTTPException, match="429") as refused:
        submit(scheduler, [1])
    assert refused.value.headers == {"Retry-After": "1"} and len(scheduler.waiting) == 2


def test_the_pace_is_learnt(make, decoder):
    scheduler, first = make(pace=1000.0, most_wait=1e9)
    decoder.go_on.set()
    for _ in range(3):
        submit(scheduler, [1])[0].result(60)
    submit(scheduler, [1] * 100)[0].result(60)
    scheduler.stop()
    assert 700 < scheduler.pace < 860 and scheduler.expected_wait() == 0


def test_a_failure_reaches_nobody_else(make, decoder):
    """The others of its batch are decoded one at a time."""
    scheduler, _ = make()
    good, bad, *others = submit(scheduler, [1], [13], [2], [3])
    decoder.go_on.set()
    with pytest.raises(HTTPException, match="500: decoding failed .ArithmeticError."):
        bad.result(60)
    assert [each.result(60) for each in (good, *others)] == [1, 2, 3]
    assert decoder.batches[1:] == [[[1], [13], [2], [3]], [[13]], [[2]], [[3]]]


def test_what_waits_is_decoded_together_where_that_pays(make, decoder):
    """The oldest, with those of nearest length; what is left is one too few."""
    scheduler, _ = make()
    rows = [[1, 1], [2] * 9, [3], [4, 4], [5] * 8, [6, 6, 6]]
    futures = submit(scheduler, *rows)
    decoder.go_on.set()
    assert [each.result(60) for each in futures] == [sum(row) for row in rows]
    assert decoder.batches[1:] == [[[6, 6, 6], [1, 1], [4, 4], [3]], [[2] * 9], [[5] * 8]]


def test_what_has_its_own_decoding_is_in_no_batch(make, decoder):
    scheduler, _ = make(smallest=lambda: 2)
    now = time.monotonic() + SOON
    first = submit(scheduler, [1])
    (own,) = scheduler.submit([[5]], now, lambda rows, drafts: iter([(0, rows)]))
    others = submit(scheduler, [2], [3])
    decoder.go_on.set()
    assert own.result(60) == [[5]] and [one.result(60) for one in first + others] == [1, 2, 3]
    assert sorted(map(sorted, decoder.batches[1:])) == [[[1], [2], [3]]]


def test_what_has_a_draft_is_batched_apart(make, decoder):
    scheduler, _ = make(smallest=lambda: 2)
    drafts = [[], [7], [], [8]]
    futures = scheduler.submit([[1], [2], [3], [4]], time.monotonic() + SOON, drafts=drafts)
    decoder.go_on.set()
    assert [each.result(60) for each in futures] == [1, 2, 3, 4]
    assert decoder.batches[1:] == [[[1], [3]], [[2], [4]]]


def test_answers_leave_as_their_rows_end(make, decoder):
    """The second row of a batch is held back; the first is answered."""
    second = threading.Event()

    def decode(rows, drafts):
        yield 0, "first"
        assert second.wait(60)
        yield 1, "second"

    scheduler, _ = make()
    first, last = scheduler.submit([[1], [2], [3]], time.monotonic() + SOON, decode)[:2]
    decoder.go_on.set()
    assert first.result(60) == "first" and not last.done()
    second.set()
    assert last.result(60) == "second"


def test_the_end_finishes_what_was_accepted(make, decoder):
    scheduler, first = make()
    last = submit(scheduler, [1], [2])
    stopping = threading.Thread(target=scheduler.stop)
    stopping.start()
    while not scheduler.stopping:
        time.sleep(0.001)
    with pytest.raises(HTTPException, match="503"):
        submit(scheduler, [3])
    decoder.go_on.set()
    stopping.join(60)
    assert [each.result(0) for each in [first, *last]] == [0, 1, 2]
