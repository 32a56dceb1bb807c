"""Decoding with one choice of flags on the verifier of a translator, the choices of single calls,
and threads."""

import concurrent.futures
import contextlib
import dataclasses
import functools
import queue
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeVar

import torch
from fairseq.data import Dictionary, data_utils

from fairseq_specdec.decoding.builder import Overrides, build_generator, check_dictionaries
from fairseq_specdec.decoding.iteration import TracedIteration
from fairseq_specdec.decoding.stats import DecodingStats
from fairseq_specdec.decoding.strategies import OWN_FLAGS, STRATEGIES
from fairseq_specdec.drafting.vocabulary import write_list
from fairseq_specdec.engine.backend import Once, tell_once
from fairseq_specdec.errors import UsageError
from fairseq_specdec.families.languages import of_pair
from fairseq_specdec.io.flag_values import flag_of
from fairseq_specdec.io.forks import RENEWED, Lock
from fairseq_specdec.io.provenance import cores
from fairseq_specdec.trace.record import Trace
from fairseq_specdec.trace.recorder import TraceBuilder, settings_of

from .choice import WIDEST, Choice, drafts
from .flags import Flags, in_python, split_flags
from .loading import Loaded
from .results import Alternative, Translation
from .text import TextCodec

STREAMS = 256  # at once; more wait
# Weights are packed by these, once.
SETTLED = frozenset({
    "backend", "verifier_dtype", "drafter_dtype", "cuda_graphs", "threads", "keep_weights",
})  # fmt: skip
# Choices of flags that are kept ready, besides the translator's own.
KEPT = 8

T = TypeVar("T")
Rows = Sequence[Sequence[int]]
"""Token ids of each text of a batch, of its source or of what its output begins with."""
Sample = dict[str, Any]
"""A batch as fairseq's datasets collate it."""
Growing = Generator[tuple[TracedIteration | None, str], None, None]
"""Iterations of one sentence, with new text."""


class SharedStats(DecodingStats):
    """Counters that several generators add to, each from threads of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = Lock()

    def add(self, other: DecodingStats) -> None:
        with self._lock:
            super().add(other)


class Decoding(NamedTuple):
    """A generator, with what it needs from texts to ``Translation``."""

    loaded: Loaded
    codec: TextCodec
    generator: Any  # a ``SpeculativeGenerator``
    trace_builder: TraceBuilder  # with the flags that matter to the generator
    nbest: int
    batch_size: int
    turn: Callable[[], AbstractContextManager[None]]  # the state in which a batch is decoded
    used: Counter[int]  # tokens of all outputs; an update is one call in C, so threads share it
    wide: "Callable[[], Decoding] | None" = None  # the one for more than ``WIDEST`` rows

    def of_rows(self, rows: int) -> "Decoding":
        """The one for a batch of so many rows."""
        return self.wide() if self.wide is not None and rows > WIDEST else self

    def given(self, rows: Rows, prefixes: Rows = (), drafts: Rows = ()) -> tuple[Sample, Sample]:
        """fairseq's sample of these texts' token ids, padded on the side of the task, with what
        their outputs are expected to be like, and what they begin with."""
        task, device = self.loaded.task, self.loaded.device

        def padded(rows: Rows, words: Dictionary, left: bool) -> Any:
            tokens = [torch.tensor(row, dtype=torch.long) for row in rows]
            return data_utils.collate_tokens(tokens, words.pad(), left_pad=left).to(device)

        lengths = torch.tensor(list(map(len, rows))).to(device)
        tokens = padded(rows, task.source_dictionary, task.cfg.left_pad_source)
        sample = {"net_input": {"src_tokens": tokens, "src_lengths": lengths}}
        first: Sample = {"bos_token": self.codec.start}
        language = [] if self.codec.first is None else [self.codec.first]
        forced = [[*language, *each] for each in prefixes or [()] * len(rows)]
        if any(forced):
            first["prefix_tokens"] = padded(forced, task.target_dictionary, False)
        if any(drafts):
            end = task.target_dictionary.eos()
            texts = [[*language, *each, end] if each else [] for each in drafts]
            sample["draft_tokens"] = padded(texts, task.target_dictionary, False)
        return {**sample, "batch_size": self.batch_size}, first

    @contextlib.contextmanager
    def batch(self, rows: Rows, prefixes: Rows = (), drafts: Rows = ()) -> Iterator[Any]:
        """A batch of these texts' token ids, ready to decode, none of them empty."""
        sample, first = self.given(rows, prefixes, drafts)
        with self.turn(), self.generator.batch(self.loaded.models, sample, **first) as opened:
            yield opened
            for ranked in filter(None, opened.finished):
                self.used.update(ranked[0]["tokens"].tolist())

    def grow(
        self, row: list[int], prefix: Sequence[int] = (), draft: Sequence[int] = ()
    ) -> Growing:
        """Decode one sentence, and yield each iteration with the text that it makes certain; at the
        end None with the rest."""
        tokens: list[int] = []
        given = ""
        with self.batch([row], [prefix], [draft]) as batch:
            while batch.live:
                batch.iterate()
                iteration = batch.trace(0)[-1]
                tokens += iteration.emitted
                text = self.codec.certain(self.codec.words(tokens))
                new = text[len(given) :] if text.startswith(given) else ""
                given += new
                yield iteration, new
        text = self.codec.join(self.codec.words(tokens))
        assert text.startswith(given), f"{text!r} does not begin with {given!r}"
        yield None, text[len(given) :]

    def result(
        self, i: int, source: str, row: list[int], ranked: list[dict[str, Any]], traced: bool
    ) -> Translation:
        """The translation of a text. ``ranked``: its hypotheses, best first; [] of a text without a
        visible character."""
        traces = self.trace_builder
        if not ranked:
            empty = Trace(i, traces.strategy, dict(traces.settings), [], [], None, [], source, "")
            return Translation("", [], 0.0, 0, [], [], 0, empty if traced else None)
        found = []
        for hypothesis in ranked[: self.nbest]:
            tokens = self.codec.words(hypothesis["tokens"].tolist())
            scores = tuple(hypothesis["positional_scores"].tolist())
            text, score = self.codec.join(tokens), float(hypothesis["score"])
            found.append(Alternative(text, tokens, score, scores))
        best, passes = found[0], ranked[0]["iterations"]
        return Translation(
            *best[:3],
            iterations=ranked[0]["steps"],
            accepted=passes.accepted,
            drafted=list(map(len, passes.drafts)),
            unknown=row.count(self.loaded.task.source_dictionary.unk()),
            trace=traces.sentence(i, row, ranked[0], source, best.text) if traced else None,
            alternatives=tuple(found[1:]),
            scores=best.scores,
        )


@dataclasses.dataclass(eq=False)
class Decodings:
    """Makes a ``Decoding`` for each choice of flags, on one verifier in memory."""

    loaded: Loaded
    codec: TextCodec
    drafter: str | None  # the checkpoint, for strategies that need one
    choice: Choice  # its strategy and ``flags``: where a call does not choose
    flags: Flags
    batch_size: int | None = None  # of every choice; None for what suits the strategy
    seed: int | None = None  # of every batch; it is the whole process's, so that batches take turns
    learns: str | None = None  # file for the tokens that outputs use most

    def __post_init__(self) -> None:
        self.stats, self.used = SharedStats(), Counter[int]()  # of all choices
        self._once = Once()
        self._lock, self._alone = Lock(), Lock()
        self._kept = functools.lru_cache(maxsize=KEPT, typed=True)(self._made)
        self.base = self._made(self.choice.strategy, **self.flags)

    def write_learnt(self) -> None:
        """Write the tokens that outputs used most, where that was asked for."""
        if self.learns is not None and self.used:
            listed, words = self.base.generator.vocabulary, self.loaded.dictionaries[1]
            before = [] if listed is None else listed.tokens.tolist()
            try:
                write_list(self.learns, words, self.used, before)
            except OSError as error:
                tell_once(f"--learn-vocabulary {self.learns} is not written: {error.strerror}")

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """With a seed alone, and seeded."""
        if self.seed is None:
            yield
            return
        cards = [self.loaded.device] if self.loaded.device.type == "cuda" else []
        with self._alone, torch.random.fork_rng(devices=cards):
            torch.manual_seed(self.seed)
            yield

    def _made(self, strategy: str, **flags: Any) -> Decoding:
        words = self.loaded.dictionaries
        settings, args = split_flags(strategy, drafter_of(strategy, self.drafter), flags)
        check_dictionaries(strategy, *words, settings)
        generator = build_generator(
            self.loaded.models, *words, args, settings, stats=self.stats, load=self._load,
            free_unpacked=not settings.keep_weights, once=self._once,
            overrides=Overrides(keep_trace=True, own_limits=True),
        )  # fmt: skip
        size = self.batch_size or (1 if generator.options.plans_once else 16)
        traces = TraceBuilder(strategy, settings_of(settings, args, generator), *words)
        how = args.nbest, size, self._turn, self.used
        return Decoding(self.loaded, self.codec, generator, traces, *how)

    @in_python()
    def of_call(self, strategy: str | None, flags: Flags) -> Decoding:
        """The one of a call. Raises TypeError or ValueError: a flag or file that cannot be
        honoured, in the call's words."""
        own, wide = self.choice.strategy, None
        if strategy is None and self.choice.wide is not None and not drafts(flags):
            wide = functools.partial(self.of_call, self.choice.wide, flags)
        strategy = strategy or own
        if not flags and strategy == own:
            return self.base._replace(wide=wide)
        for name in sorted(SETTLED & set(flags)):
            problem = "holds for all calls, since weights are packed by it"
            raise UsageError(flag_of(name), problem, "pass it to from_pretrained")
        kept = {
            name: value
            for name, value in self.flags.items()
            if strategy == own or strategy in OWN_FLAGS.get(name, STRATEGIES)
        }
        with self._lock:
            found = self._kept(strategy, **dict(sorted({**kept, **flags}.items())))
        return found._replace(wide=wide)

    def _load(
        self, path: str, source: Dictionary, target: Dictionary, read: Callable, dtype: object
    ) -> Any:
        """A drafter, read once for all that use it; packed and freed in one precision."""
        pair = self.codec.languages
        return self._once((path, read, dtype), lambda: of_pair(read(path, source, target), *pair))


def drafter_of(strategy: str, drafter: str | None) -> str | None:
    """The drafter that a strategy uses; an unknown one has none."""
    return drafter if strategy in STRATEGIES and STRATEGIES[strategy].needs_drafter else None


# ---- threads -------------------------------------------------------------------------------------


class Threads:
    """Threads that begin with the first work and then wait for more; a forked process begins its
    own. They do not end: MKL frees the memory of an ending thread under locks, and a process
    that is forked at that moment waits for these locks for ever.

    Attributes:
        pool: of whole calls: one on a GPU, else as many as there is room for.
        streams: of what is yielded piece by piece.
    """

    def __init__(self, device: torch.device) -> None:
        self._count = 1 if device.type == "cuda" else max(1, cores() // torch.get_num_threads())
        self._begin()
        RENEWED.add(self)

    def _begin(self) -> None:
        self.pool = concurrent.futures.ThreadPoolExecutor(self._count, "specdec-async")
        self.streams = concurrent.futures.ThreadPoolExecutor(STREAMS, "specdec-stream")

    def renew(self) -> None:
        """Leave the parent's threads. Those of OpenMP are missing too, and torch waits for them."""
        self._begin()
        torch.set_num_threads(1)

    def close(self) -> None:
        """End the threads, once they have done what they were given."""
        for each in (self.pool, self.streams):
            each.shutdown()

    def in_background(self, items: Generator[T, None, None]) -> Generator[T, None, None]:
        """Yield the items, which a thread takes meanwhile. Closing this generator closes theirs at
        its next item."""
        feed: queue.SimpleQueue[tuple[T] | BaseException | None] = queue.SimpleQueue()  # None ends
        ended = threading.Event()

        def run() -> None:
            end = None
            try:
                with contextlib.closing(items):
                    for item in items:
                        feed.put((item,))
                        if ended.is_set():
                            break
            except BaseException as error:  # raised in the thread that waits
                end = error
            feed.put(end)

        streams = self.streams
        worker = streams.submit(run)
        try:
            while isinstance(item := feed.get(), tuple):
                yield item[0]
            if item is not None:
                raise item
        finally:
            ended.set()
            if streams is self.streams:  # in a forked process the work never ends
                concurrent.futures.wait([worker])
