"""From a generator's hypotheses to traces, and into the file of ``--trace-path``."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import Any

from fairseq_specdec.config import OWN_FIELDS
from fairseq_specdec.decoding.iteration import TracedIteration
from fairseq_specdec.decoding.strategies import STRATEGIES

from .files import TraceFile
from .record import Trace

logger = logging.getLogger(__name__)

# Generation flags that change what is accepted or drafted, with the value that changes nothing.
GENERATION = {"sampling": False, "sampling_topk": -1, "sampling_topp": -1.0, "temperature": 1.0}


def settings_of(settings: Any, args: Any, generator: Any) -> dict[str, Any]:
    """The flags that matter to a strategy."""
    stated = STRATEGIES[settings.strategy].stated
    flags: dict[str, Any] = {}
    for field in OWN_FIELDS:
        name = field.name
        if name in ("strategy", "trace_path"):
            continue
        value = getattr(settings, name, field.default)
        if value != field.default or (name in stated and value is not None):
            flags[name] = value
    drafter = generator.drafter
    options = getattr(drafter, "options", drafter)
    size = getattr(options, "block_size", None)
    if size is not None:
        flags["block_size"] = size
    for name, unused in GENERATION.items():
        value = getattr(args, name, unused)
        if value != unused:
            flags[name] = value
    if generator.options.beam > 1:
        flags["beam"] = generator.options.beam
    if len(generator.models) > 1:
        flags["ensemble"] = len(generator.models)
    return flags


@dataclasses.dataclass(eq=False)
class TraceBuilder:
    """Makes traces of hypotheses."""

    strategy: str
    settings: dict[str, Any]
    src_dict: Any  # None of speech
    tgt_dict: Any

    def _words(self, source: list[Any]) -> list[str]:
        """The words of a source, without padding; none of speech."""
        if self.src_dict is None:
            return []
        symbols, pad = self.src_dict.symbols, self.src_dict.pad()
        return [symbols[token] for token in source if token != pad]

    def iteration(self, part: TracedIteration) -> TracedIteration:
        """An iteration in words."""
        symbols = self.tgt_dict.symbols

        def words(tokens: list[int] | None) -> Any:
            return None if tokens is None else [symbols[token] for token in tokens]

        return dataclasses.replace(
            part,
            draft=words(part.draft),
            choices=words(part.choices),
            own=None if part.own is None else symbols[part.own],
            agreed=words(part.agreed),
            beam=part.beam and part.beam.in_words(part.position, symbols),
        )

    def sentence(
        self,
        number: int,
        source: list[int],
        hypothesis: dict[str, Any],
        source_text: str | None = None,
        output_text: str | None = None,
    ) -> Trace:
        """A sentence decoded with ``keep_trace``."""
        theirs = self.tgt_dict.symbols
        return Trace(
            id=number,
            strategy=self.strategy,
            settings=dict(self.settings),
            source=self._words(source),
            output=[theirs[token] for token in hypothesis["tokens"].tolist()],
            score=float(hypothesis["score"]),
            iterations=[self.iteration(part) for part in hypothesis["iterations"]],
            source_text=source_text,
            output_text=output_text,
        )


class Recorder:
    """Writes what a task decodes; the file appears when all of it is decoded. ``ended``: whether
    every batch was asked for; None where that is not known."""

    def __init__(
        self, file: TraceFile, trace_builder: TraceBuilder, ended: Callable[[], bool | None]
    ) -> None:
        self.file = file
        self.trace_builder = trace_builder
        self.ended = ended
        self.pending = 0

    def begin(self) -> None:
        """A batch is about to be decoded."""
        self.pending += 1

    def fail(self) -> None:
        """It cannot be: there will be no whole trace any more."""
        self._end(False)

    def add(self, sample: dict[str, Any], hypotheses: list[list[dict[str, Any]]]) -> None:
        """It was: append its sentences. ``sample``: fairseq's batch; without ``id`` sentences are
        numbered as they come. ``hypotheses``: what the generator made of it; the best one of each
        sentence is traced."""
        if not self.file.open:
            return
        sources = sample["net_input"]["src_tokens"].tolist()
        numbers = sample.get("id")
        if numbers is None:
            numbers = range(self.file.traces, self.file.traces + len(sources))
        else:
            numbers = numbers.tolist()
        for number, source, ranked in zip(numbers, sources, hypotheses):
            self.file.add(self.trace_builder.sentence(number, source, ranked[0]))
        self.pending -= 1

    def close(self, may_log: Callable[[], bool] = lambda: True) -> None:
        """The generator is gone: publish a complete trace, drop any other."""
        ended = self.ended()
        if ended is None:  # read from a prompt: so far, it is whole after every batch
            ended = self.file.traces > 0
        self._end(ended and self.pending == 0, may_log)

    def _end(self, whole: bool, may_log: Callable[[], bool] = lambda: True) -> None:
        if not self.file.open:
            return
        if whole:
            self.file.publish()
        else:
            self.file.discard()
        if may_log():
            level, words = logging.INFO, "--trace-path %s: %d sentences"
            if not whole:
                level = logging.WARNING
                words = "--trace-path %s: decoding did not end (%d sentences were done); nothing "
                words += "is written there"
            logger.log(level, words, self.file.path, self.file.traces)
