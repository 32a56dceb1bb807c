"""One choice of decoding flags on the verifier of a translator, and the choices of single calls."""

import contextlib
import copy
import functools
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from fairseq.data import data_utils

from fairseq_specdec.decoding.builder import (
    Overrides,
    build_generator,
    check_dictionaries,
    check_settings,
)
from fairseq_specdec.decoding.stats import DecodingStats
from fairseq_specdec.decoding.strategies import OWN_FLAGS, STRATEGIES
from fairseq_specdec.engine.once import Once
from fairseq_specdec.errors import UsageError
from fairseq_specdec.families.languages import of_pair
from fairseq_specdec.io.flag_values import flag_of
from fairseq_specdec.io.forks import Lock
from fairseq_specdec.trace.recorder import TraceBuilder, settings_of

from .batching import collated
from .flags import in_python, split_flags
from .loading import Loaded
from .results import Translation, nothing, translation
from .streaming import Put
from .text import TextCodec

# Weights are packed by these, once.
SETTLED = frozenset({
    "backend", "verifier_dtype", "drafter_dtype", "cuda_graphs", "threads", "keep_weights",
    "cost_table",
})  # fmt: skip
# Choices of flags that are kept ready, besides the translator's own.
KEPT = 8


class SharedStats(DecodingStats):
    """Counters that several generators add to, each from threads of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = Lock()

    def add(self, other: DecodingStats) -> None:
        with self._lock:
            super().add(other)


class Turn:
    """The state in which a batch is decoded: no gradients; with a seed alone, and seeded.

    Args:
        seed: of every batch, or None. It is set for the whole process: no other batch may draw in
            between.
        device: where it draws.
    """

    def __init__(self, seed: int | None, device: torch.device) -> None:
        self._seed = seed
        self._cards = [device] if device.type == "cuda" else []
        self._alone: AbstractContextManager[Any] = contextlib.nullcontext()
        if seed is not None:
            self._alone = Lock()

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        """Enter it."""
        with self._alone, torch.no_grad():
            if self._seed is None:
                yield
                return
            with torch.random.fork_rng(devices=self._cards):
                torch.manual_seed(self._seed)
                yield


class Decoding:
    """A generator, with what it needs from texts to ``Translation``."""

    def __init__(
        self,
        loaded: Loaded,
        codec: TextCodec,
        generator: Any,
        settings: dict[str, Any],
        nbest: int,
        batch_size: int,
        turn: Turn,
    ) -> None:
        self.generator = generator
        self.settings = settings
        self.nbest = nbest
        self.batch_size = batch_size
        self.trace_builder = TraceBuilder(generator.strategy, settings, *loaded.dictionaries)
        self._loaded = loaded
        self._codec = codec
        self._turn = turn

    def resized(self, batch_size: int) -> "Decoding":
        """The same for batches of so many texts."""
        made = copy.copy(self)
        made.batch_size = batch_size
        return made

    def given(
        self, rows: list[list[int]], prefixes: Sequence[Sequence[int]] = ()
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """fairseq's sample of these texts' token ids, and what their outputs begin with.
        ``prefixes``: token ids of each text; () for none."""
        device = next(self._loaded.models[0].parameters()).device
        sample = collated(rows, self._loaded.task, device)
        sample["batch_size"] = self.batch_size
        first: dict[str, Any] = {"bos_token": self._codec.start}
        language = [] if self._codec.first is None else [self._codec.first]
        forced = [torch.tensor([*language, *each]).long() for each in prefixes or [[]] * len(rows)]
        if any(map(len, forced)):
            pad = self._loaded.task.target_dictionary.pad()
            first["prefix_tokens"] = data_utils.collate_tokens(forced, pad).to(device)
        return sample, first

    @contextlib.contextmanager
    def batch(self, rows: list[list[int]], prefixes: Sequence[Sequence[int]] = ()) -> Iterator[Any]:
        """A batch of these texts' token ids, ready to decode, none of them empty; ``prefixes`` as
        of ``given``."""
        sample, first = self.given(rows, prefixes)
        with self._turn(), self.generator.batch(self._loaded.models, sample, **first) as opened:
            yield opened

    def stream(
        self,
        row: list[int],
        put: Put,
        ended: Callable[[], bool],
        prefixes: Sequence[Sequence[int]] = (),
    ) -> None:
        """As ``Calls.decode_growing``; ``prefixes`` as in ``given``."""
        tokens: list[int] = []
        with self.batch([row], prefixes) as batch:
            while batch.live and not ended():
                batch.iterate()
                iteration = batch.trace(0)[-1]
                tokens += iteration.emitted
                put(iteration, self._codec.words(tokens))
        put(None, self._codec.words(tokens))

    def result(
        self, i: int, source: str, row: list[int], ranked: list[dict[str, Any]], traced: bool
    ) -> Translation:
        """The translation of a text, from its hypotheses."""
        unknown = row.count(self._loaded.task.source_dictionary.unk())
        translated = translation(self._codec, ranked[: self.nbest], unknown)
        if not traced:
            return translated
        trace = self.trace_builder.sentence(i, row, ranked[0], source, translated.text)
        return translated._replace(trace=trace)

    def nothing(self, i: int, source: str, traced: bool) -> Translation:
        """The translation of a text without a visible character."""
        return nothing(self.trace_builder, i, source, traced)


def checked(
    strategy: str, drafter: str | None, flags: dict[str, Any]
) -> tuple[Namespace, Namespace]:
    """Flags as ``build_generator`` wants them; no model is needed."""
    settings, args = split_flags(strategy, drafter, flags)
    check_settings(settings)
    return settings, args


class Decodings:
    """Makes a ``Decoding`` for each choice of flags, on one verifier in memory.

    Attributes:
        stats: what all of them decoded.
        loaded, codec: as given.

    Args:
        drafter_of: the drafter's checkpoint for a strategy that needs one, or None.
        batch_size: of every choice; None for what suits the strategy.
        seed: of every batch.
        freeing: free the models' weights that the engine has packed, unless ``keep_weights``.
    """

    def __init__(
        self,
        loaded: Loaded,
        codec: TextCodec,
        drafter_of: Callable[[str], str | None],
        batch_size: int | None = None,
        seed: int | None = None,
        freeing: bool = True,
    ) -> None:
        self.loaded = loaded
        self.codec = codec
        self.stats = SharedStats()
        self._drafter_of = drafter_of
        self._batch_size = batch_size
        self._freeing = freeing
        self._turn = Turn(seed, next(loaded.models[0].parameters()).device)
        self._once = Once()
        self._lock = Lock()
        self._kept = functools.lru_cache(maxsize=KEPT, typed=True)(self._of_call)

    def made(self, strategy: str, drafter: str | None, flags: dict[str, Any]) -> Decoding:
        """A new one."""
        settings, args = checked(strategy, drafter, flags)
        check_dictionaries(strategy, *self.loaded.dictionaries, settings)
        generator = build_generator(
            self.loaded.models, *self.loaded.dictionaries, args, settings, stats=self.stats,
            load=self._load, free_unpacked=self._freeing and not settings.keep_weights,
            overrides=Overrides(keep_trace=True, own_limits=True), once=self._once,
        )  # fmt: skip
        size = self._batch_size
        if size is None:
            size = 16 if generator.options.planned_chance is None else 1
        facts = settings_of(settings, args, generator)
        return Decoding(self.loaded, self.codec, generator, facts, args.nbest, size, self._turn)

    @in_python()
    def of_call(
        self, strategy: str, base: tuple[str, dict[str, Any]], flags: dict[str, Any]
    ) -> Decoding:
        """The one of a call. ``base``: strategy and flags of the translator, which hold where the
        call does not choose. Raises TypeError or ValueError: a flag or file that cannot be
        honoured, in the call's words."""
        settled = sorted(SETTLED & set(flags))
        if settled:
            raise UsageError(
                flag_of(settled[0]),
                "holds for all calls, since weights are packed by it",
                "pass it to from_pretrained",
            )
        kept = {
            name: value
            for name, value in base[1].items()
            if strategy == base[0] or strategy in OWN_FLAGS.get(name, STRATEGIES)
        }
        split_flags(strategy, None, flags)  # of the right types, so that they can be looked up
        with self._lock:
            chosen = sorted({**kept, **flags}.items())
            return self._kept(strategy, **dict(chosen))

    def _of_call(self, strategy: str, **flags: Any) -> Decoding:
        known = STRATEGIES.get(strategy)
        needs = known is not None and known.needs_drafter
        return self.made(strategy, self._drafter_of(strategy) if needs else None, flags)

    def _load(self, path: str, src_dict: Any, tgt_dict: Any, read: Callable, dtype: Any) -> Any:
        """A drafter, read once for all that use it; packed and freed in one number format."""
        key = (path, read, dtype if self._freeing else None)

        def drafter() -> Any:
            return of_pair(read(path, src_dict, tgt_dict), *self.codec.languages)

        return self._once(key, drafter)
