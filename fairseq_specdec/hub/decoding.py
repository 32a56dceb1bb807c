"""One choice of decoding flags on the verifier of a translator, and the choices of single calls."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from fairseq.data import Dictionary, data_utils

from fairseq_specdec.decoding.builder import Overrides, build_generator, check_dictionaries
from fairseq_specdec.decoding.iteration import TracedIteration
from fairseq_specdec.decoding.stats import DecodingStats
from fairseq_specdec.decoding.strategies import OWN_FLAGS, STRATEGIES
from fairseq_specdec.engine.backend import Once
from fairseq_specdec.errors import UsageError
from fairseq_specdec.families.languages import of_pair
from fairseq_specdec.io.flag_values import flag_of
from fairseq_specdec.io.forks import Lock
from fairseq_specdec.trace.record import Trace
from fairseq_specdec.trace.recorder import TraceBuilder, settings_of

from .flags import Flags, in_python, split_flags
from .loading import Loaded
from .results import Alternative, Translation
from .text import GrowingText, TextCodec

# Weights are packed by these, once.
SETTLED = frozenset({
    "backend", "verifier_dtype", "drafter_dtype", "cuda_graphs", "threads", "keep_weights",
})  # fmt: skip
# Choices of flags that are kept ready, besides the translator's own.
KEPT = 8

Prefixes = Sequence[Sequence[int]]
"""Token ids that the output of each text of a batch begins with; () for none."""
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


@dataclasses.dataclass(frozen=True)
class Decoding:
    """A generator, with what it needs from texts to ``Translation``."""

    loaded: Loaded
    codec: TextCodec
    generator: Any  # a ``SpeculativeGenerator``
    settings: Flags  # the flags that matter to it
    nbest: int
    batch_size: int
    turn: Callable[[], AbstractContextManager[None]]  # the state in which a batch is decoded

    @property
    def trace_builder(self) -> TraceBuilder:
        """Makes traces of its hypotheses."""
        words = self.loaded.dictionaries
        return TraceBuilder(self.generator.strategy, self.settings, *words)

    def given(self, rows: list[list[int]], prefixes: Prefixes = ()) -> tuple[Sample, Sample]:
        """fairseq's sample of these texts' token ids, padded on the side of the task, and what
        their outputs begin with."""
        task, device = self.loaded.task, self.loaded.device
        words, left = task.source_dictionary, task.cfg.left_pad_source
        tokens = data_utils.collate_tokens(
            list(map(torch.tensor, rows)), words.pad(), words.eos(), left_pad=left
        )
        lengths = torch.tensor(list(map(len, rows)))
        net_input = {"src_tokens": tokens.to(device), "src_lengths": lengths.to(device)}
        first: Sample = {"bos_token": self.codec.start}
        language = [] if self.codec.first is None else [self.codec.first]
        forced = [torch.tensor([*language, *each]).long() for each in prefixes or [[]] * len(rows)]
        if any(map(len, forced)):
            pad = task.target_dictionary.pad()
            first["prefix_tokens"] = data_utils.collate_tokens(forced, pad).to(device)
        return {"net_input": net_input, "batch_size": self.batch_size}, first

    @contextlib.contextmanager
    def batch(self, rows: list[list[int]], prefixes: Prefixes = ()) -> Iterator[Any]:
        """A batch of these texts' token ids, ready to decode, none of them empty."""
        sample, first = self.given(rows, prefixes)
        with self.turn(), self.generator.batch(self.loaded.models, sample, **first) as opened:
            yield opened

    def grow(self, row: list[int], prefixes: Prefixes = ()) -> Growing:
        """Decode one sentence, and yield each iteration with the text that it makes certain; at the
        end None with the rest."""
        tokens: list[int] = []
        growing = GrowingText(self.codec)
        with self.batch([row], prefixes) as batch:
            while batch.live:
                batch.iterate()
                iteration = batch.trace(0)[-1]
                tokens += iteration.emitted
                yield iteration, growing.next(self.codec.words(tokens), last=False)
        yield None, growing.next(self.codec.words(tokens), last=True)

    def result(
        self, i: int, source: str, row: list[int], ranked: list[dict[str, Any]], traced: bool
    ) -> Translation:
        """The translation of a text. ``ranked``: its hypotheses, best first; [] of a text without a
        visible character."""
        if not ranked:
            settings = dict(self.settings)
            empty = Trace(i, self.generator.strategy, settings, [], [], None, [], source, "")
            return Translation("", [], 0.0, 0, [], [], 0, empty if traced else None)
        found = []
        for hypothesis in ranked[: self.nbest]:
            tokens = self.codec.words(hypothesis["tokens"].tolist())
            scores = tuple(hypothesis["positional_scores"].tolist())
            text, score = self.codec.join(tokens), float(hypothesis["score"])
            found.append(Alternative(text, tokens, score, scores))
        best, passes = found[0], ranked[0]["iterations"]
        trace = None
        if traced:
            trace = self.trace_builder.sentence(i, row, ranked[0], source, best.text)
        unknown = row.count(self.loaded.task.source_dictionary.unk())
        return Translation(
            *best[:3], ranked[0]["steps"], passes.accepted, list(map(len, passes.drafts)), unknown,
            trace, tuple(found[1:]), best.scores,
        )  # fmt: skip


@dataclasses.dataclass(eq=False)
class Decodings:
    """Makes a ``Decoding`` for each choice of flags, on one verifier in memory.

    Attributes:
        drafter: the drafter's checkpoint, for strategies that need one, or None.
        strategy, flags: where a call does not choose.
        batch_size: of every choice; None for what suits the strategy.
        seed: of every batch. It is set for the whole process, so that batches take turns.
        stats: what all of them decoded.
        base: where a call does not choose.
    """

    loaded: Loaded
    codec: TextCodec
    drafter: str | None
    strategy: str
    flags: Flags
    batch_size: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        self.stats = SharedStats()
        self._once = Once()
        self._lock, self._alone = Lock(), Lock()
        self._kept = functools.lru_cache(maxsize=KEPT, typed=True)(self._made)
        self.base = self._made(self.strategy, **self.flags)

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
        settings, args = split_flags(strategy, drafter_of(strategy, self.drafter), flags)
        check_dictionaries(strategy, *self.loaded.dictionaries, settings)
        generator = build_generator(
            self.loaded.models, *self.loaded.dictionaries, args, settings, stats=self.stats,
            load=self._load, free_unpacked=not settings.keep_weights,
            overrides=Overrides(keep_trace=True, own_limits=True), once=self._once,
        )  # fmt: skip
        size = self.batch_size or (1 if generator.options.plans_once else 16)
        facts = settings_of(settings, args, generator)
        return Decoding(self.loaded, self.codec, generator, facts, args.nbest, size, self._turn)

    @in_python()
    def of_call(self, strategy: str | None, flags: Flags) -> Decoding:
        """The one of a call. Raises TypeError or ValueError: a flag or file that cannot be
        honoured, in the call's words."""
        strategy = strategy or self.strategy
        if not flags and strategy == self.strategy:
            return self.base
        for name in sorted(SETTLED & set(flags)):
            problem = "holds for all calls, since weights are packed by it"
            raise UsageError(flag_of(name), problem, "pass it to from_pretrained")
        kept = {
            name: value
            for name, value in self.flags.items()
            if strategy == self.strategy or strategy in OWN_FLAGS.get(name, STRATEGIES)
        }
        with self._lock:
            return self._kept(strategy, **dict(sorted({**kept, **flags}.items())))

    def _load(
        self, path: str, source: Dictionary, target: Dictionary, read: Callable, dtype: object
    ) -> Any:
        """A drafter, read once for all that use it; packed and freed in one number format."""
        pair = self.codec.languages
        return self._once((path, read, dtype), lambda: of_pair(read(path, source, target), *pair))


def drafter_of(strategy: str, drafter: str | None) -> str | None:
    """The drafter that a strategy uses; an unknown one has none."""
    return drafter if strategy in STRATEGIES and STRATEGIES[strategy].needs_drafter else None
