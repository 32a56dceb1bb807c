"""Counters and times of a decoding run."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from .iteration import Iteration

# The verifier's encoder; the drafter's own, if it has one; the rest of the drafter; the verifier's
# decoder with acceptance; all else. Keys and values of cross-attention belong to their decoder.
SECTIONS = ("encoder", "drafter_encoder", "drafter", "verifier", "rest")

# Figures, by their names for programs.
COUNTERS = {
    "sentences": "sentences", "iterations": "iterations", "emitted": "emitted_tokens",
    "scored": "scored_tokens", "drafted": "drafted_tokens", "accepted": "accepted_draft_tokens",
    "rollbacks": "rollbacks", "undrafted": "undrafted_iterations", "unverified": "unverified",
    "draft_steps": "draft_steps", "windows": "vocabulary_windows",
}  # fmt: skip
RATIOS = (
    "mean_accepted_tokens", "mean_accepted_tokens_without_eos", "mean_iterations",
    "acceptance_rate", "fallback_share", "rollback_share",
)  # fmt: skip


class Stopwatch:
    """Wall time by section: CPU clock, or CUDA events on the stream of the device that computes.

    Events add no synchronisation to the loop. They are turned into seconds once a batch, so that
    they do not pile up.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {name: 0.0 for name in SECTIONS}
        self._events: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = []
        self._device: torch.device | None = None

    def on(self, device: torch.device) -> None:
        """Time what runs on this device from now on; a batch begins."""
        self.settle()
        self._device = device if device.type == "cuda" else None

    @contextlib.contextmanager
    def __call__(self, section: str) -> Iterator[None]:
        if self._device is not None:
            # The current device may be another one, whose events would time nothing.
            stream = torch.cuda.current_stream(self._device)
            begin = torch.cuda.Event(enable_timing=True)
            end = torch.cuda.Event(enable_timing=True)
            begin.record(stream)
            yield
            end.record(stream)
            self._events.append((section, begin, end))
        else:
            started = time.perf_counter()
            yield
            self.seconds[section] += time.perf_counter() - started

    def add(self, section: str, seconds: float) -> None:
        """What was timed elsewhere."""
        self.seconds[section] += seconds

    def lap(self) -> tuple[float, float, float]:
        """Now, and the seconds of drafter and verifier so far; on a GPU it waits for them."""
        self.settle()
        return time.perf_counter(), self.seconds["drafter"], self.seconds["verifier"]

    def settle(self) -> None:
        """Turn events into seconds; on a GPU it waits for the last one."""
        if not self._events:
            return
        self._events[-1][2].synchronize()
        for section, begin, end in self._events:
            self.seconds[section] += begin.elapsed_time(end) / 1000
        self._events = []


@dataclass(eq=False)
class DecodingStats:
    """What a run did."""

    sentences: int = 0  # decoded
    iterations: int = 0  # verification passes, and ``unverified``, summed over sentences
    emitted: int = 0  # tokens of the output, </s> included; in beam search, steps of the search
    # tokens that the verifier scored: of a chain, the last accepted one and the draft; in beam
    # search, prefixes
    scored: int = 0
    drafted: int = 0  # draft tokens given to the verifier; those of a prefix are none
    accepted: int = 0  # draft tokens that entered the output
    rollbacks: int = 0  # iterations in which the verifier replaced a draft token by its own
    undrafted: int = 0  # iterations without a draft, summed over sentences
    unverified: int = 0  # iterations in which a small model ended the sentence (bild)
    draft_steps: int = 0  # passes of a small model that drafts token by token, over sentences
    # products of the whole vocabulary that each decided several steps (``--vocabulary-window``)
    windows: int = 0
    # how many iterations had so many draft tokens judged, and so many of them accepted; a token is
    # judged if all before it were accepted and the sentence has not ended. Empty in beam search
    judged: Counter[tuple[int, int]] = field(default_factory=Counter)
    total_seconds: float = 0.0
    stopwatch: Stopwatch = field(default_factory=Stopwatch)

    def count(self, done: Iteration) -> None:
        """Add an iteration of chains, or several without drafts."""
        if done.times > 1:
            tokens = len(done.sizes) * done.times
            self.judged[0, 0] += tokens
            for name in ("scored", "iterations", "emitted", "undrafted"):
                setattr(self, name, getattr(self, name) + tokens)
            return
        self.unverified += sum(done.unverified)
        if not done.unverified or not all(done.unverified):
            self.scored += len(done.sizes) + sum(done.proposed)
        if done.forced:
            nothing = [0] * len(done.sizes)
            done = done._replace(accepted=nothing, proposed=nothing)
        # A sentence that ended inside its draft has no bonus token, and judged no more.
        judged = [
            (accepted + (size > accepted < proposed), accepted)
            for size, accepted, proposed in zip(done.sizes, done.accepted, done.proposed)
        ]
        accepted = sum(done.accepted)
        self.judged.update(judged)
        self.iterations += len(judged)
        self.emitted += sum(done.sizes)
        self.accepted += accepted
        self.drafted += sum(done.proposed)
        self.rollbacks += sum([size for size, _ in judged]) - accepted
        self.undrafted += done.proposed.count(0)
        self.draft_steps += len(judged) * done.passes

    def add(self, other: DecodingStats) -> None:
        other.stopwatch.settle()
        for name in COUNTERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.judged.update(other.judged)
        self.total_seconds += other.total_seconds
        for section, seconds in other.stopwatch.seconds.items():
            self.stopwatch.seconds[section] += seconds

    @property
    def mean_accepted_tokens(self) -> float:
        """Tokens emitted per iteration, the verifier's own and </s> included."""
        return _ratio(self.emitted, self.iterations)

    @property
    def mean_accepted_tokens_without_eos(self) -> float:
        """The same without the </s> of each sentence: Tok. of Ge et al. 2022 and Xia et al. 2023,
        as their authors' code counts it."""
        return _ratio(self.emitted - self.sentences, self.iterations)

    @property
    def mean_iterations(self) -> float:
        """Iterations per sentence (Iter. in the papers): verifier calls, and ``unverified``."""
        return _ratio(self.iterations, self.sentences)

    @property
    def acceptance_rate(self) -> float:
        """Share of the drafted tokens that entered the output."""
        return _ratio(self.accepted, self.drafted)

    @property
    def acceptance_by_position(self) -> list[float]:
        """Share of the judged tokens at each position of a draft that were accepted: how likely
        a token is right given that all before it were."""
        last = max((judged for judged, _ in self.judged), default=0)
        shares = []
        for position in range(1, last + 1):
            judged = sum(n for (size, _), n in self.judged.items() if size >= position)
            accepted = sum(n for (_, size), n in self.judged.items() if size >= position)
            shares.append(accepted / judged)
        return shares

    @property
    def fallback_share(self) -> float:
        """Share of the verifier's calls in all steps (Kim et al. 2023, Algorithm 1 and Table 4):
        each turn of the loop emits a draft token or calls the big model."""
        calls = self.iterations - self.unverified
        return _ratio(calls, self.drafted + calls)

    @property
    def rollback_share(self) -> float:
        """Share of the same steps in which draft tokens were rolled back (Table 4)."""
        return _ratio(self.rollbacks, self.drafted + self.iterations - self.unverified)

    def times(self) -> dict[str, float]:
        """Seconds by section; ``rest`` is all other time."""
        self.stopwatch.settle()
        seconds = dict(self.stopwatch.seconds)
        known = sum(seconds[name] for name in SECTIONS if name != "rest")
        seconds["rest"] = max(0.0, self.total_seconds - known)
        return seconds

    def as_dict(self) -> dict[str, float]:
        """All figures by name."""
        figures = {name: float(getattr(self, own)) for own, name in COUNTERS.items()}
        figures.update({name: getattr(self, name) for name in RATIOS})
        figures["seconds"] = self.total_seconds
        figures.update({f"seconds_{name}": value for name, value in self.times().items()})
        return figures

    def summary(self, strategy: str) -> str:
        """One line for the log."""
        times = self.times()
        shares = " / ".join(f"{name.replace('_', ' ')} {times[name]:.2f} s" for name in SECTIONS)
        return (
            f"strategy {strategy}: {self.sentences} sentences, {self.iterations} iterations "
            f"({self.mean_iterations:.2f} per sentence), {self.mean_accepted_tokens:.2f} mean "
            f"accepted tokens, {100 * self.acceptance_rate:.1f}% of {self.drafted} drafted "
            f"tokens accepted; {self.total_seconds:.2f} s: {shares}"
        )


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
