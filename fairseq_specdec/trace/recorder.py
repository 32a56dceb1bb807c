"""From a generator's hypotheses to traces, and into the file of ``--trace-path``."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import Any

from fairseq_specdec.config import OWN_FIELDS
from fairseq_specdec.decoding.iteration import TracedIteration
from fairseq_specdec.decoding.strategies import STRATEGIES
from fairseq_specdec.io.atomic import check_new_file, write_text

from .record import Trace

logger = logging.getLogger(__name__)

# Generation flags that change what is accepted or drafted, with the value that changes nothing.
GENERATION = {"sampling": False, "sampling_topk": -1, "sampling_topp": -1.0, "temperature": 1.0}


def settings_of(settings: Any, args: Any, generator: Any) -> dict[str, Any]:
    """The flags that matter to a strategy: those that change something, and those it states."""
    own = [each for each in OWN_FIELDS if each.name not in ("strategy", "trace_path")]
    drafter = getattr(generator.drafter, "options", generator.drafter)
    # with the values that change nothing
    flags = [(each.name, getattr(settings, each.name, each.default), each.default) for each in own]
    flags.append(("block_size", getattr(drafter, "block_size", None), None))
    flags += [(name, getattr(args, name, unused), unused) for name, unused in GENERATION.items()]
    flags += [("beam", generator.options.beam, 1), ("ensemble", len(generator.models), 1)]
    stated = STRATEGIES[settings.strategy].stated
    return {
        name: value
        for name, value, unused in flags
        if value != unused or (name in stated and value is not None)
    }


@dataclasses.dataclass(eq=False)
class TraceBuilder:
    """Makes traces of hypotheses."""

    strategy: str
    settings: dict[str, Any]
    src_dict: Any  # None of speech
    tgt_dict: Any

    def iteration(self, part: TracedIteration) -> TracedIteration:
        """An iteration with token texts."""
        symbols = self.tgt_dict.symbols

        def words(tokens: list[int] | None) -> Any:
            return None if tokens is None else [symbols[token] for token in tokens]

        return dataclasses.replace(
            part,
            draft=words(part.draft),
            choices=words(part.choices),
            own=None if part.own is None else symbols[part.own],
            agreed=words(part.agreed),
        )

    def sentence(
        self,
        number: int,
        source: list[int],
        hypothesis: dict[str, Any],
        source_text: str | None = None,
        output_text: str | None = None,
    ) -> Trace:
        """A sentence decoded with ``keep_trace``. ``source``: padding may be in it."""
        ours, theirs = self.src_dict, self.tgt_dict.symbols
        return Trace(
            id=number,
            strategy=self.strategy,
            settings=dict(self.settings),
            source=[ours[t] for t in source if t != ours.pad()] if ours else [],
            output=[theirs[token] for token in hypothesis["tokens"].tolist()],
            score=float(hypothesis["score"]),
            iterations=[self.iteration(part) for part in hypothesis["iterations"]],
            source_text=source_text,
            output_text=output_text,
        )


@dataclasses.dataclass(eq=False)
class Recorder:
    """Writes what a task decodes to ``path``, when all of it is decoded. Raises UsageError: it
    cannot be written."""

    path: str
    trace_builder: TraceBuilder
    ended: Callable[[], bool | None]  # whether every batch was asked for; None: not known

    def __post_init__(self) -> None:
        check_new_file(self.path, "--trace-path")
        self._lines: list[str] = []
        self._closed = False

    def add(self, sample: dict[str, Any], hypotheses: list[list[dict[str, Any]]]) -> None:
        """A batch was decoded. ``sample``: fairseq's batch; without ``id`` sentences are numbered
        as they come. ``hypotheses``: what the generator made of it; the best one of each sentence
        is traced."""
        if self._closed:
            return
        sources = sample["net_input"]["src_tokens"].tolist()
        done = len(self._lines)
        ids = sample.get("id")
        numbers = range(done, done + len(sources)) if ids is None else ids.tolist()
        for number, source, ranked in zip(numbers, sources, hypotheses):
            trace = self.trace_builder.sentence(number, source, ranked[0])
            self._lines.append(trace.to_json() + "\n")

    def close(self, may_log: Callable[[], bool] = lambda: True, failed: bool = False) -> None:
        """The generator is gone, or decoding ``failed``: write a complete trace, drop any other.
        Nothing is done the second time."""
        if self._closed:
            return
        self._closed, count, ended = True, len(self._lines), self.ended()
        # Of a prompt nobody says that it ended: what was decoded so far is whole.
        if not failed and (count > 0 if ended is None else ended):
            write_text(self.path, "".join(self._lines))
            level, outcome = logging.INFO, f"{count} sentences"
        else:
            level = logging.WARNING
            outcome = (
                f"decoding did not end ({count} sentences were done); nothing is written there"
            )
        if may_log():
            logger.log(level, "--trace-path %s: %s", self.path, outcome)
