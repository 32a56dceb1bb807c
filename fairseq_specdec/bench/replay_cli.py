"""``specdec-bench --replay SIZE``: the engine at the papers' scale, without their training.

Models of a paper's size with random weights decode random sentences; how many tokens an iteration
keeps is replayed from a distribution. See ``replay`` and docs/benchmarks.md.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import tempfile
from typing import Any, Dict, List, Optional, Sequence

import torch

from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.builder import Overrides
from fairseq_specdec.decoding.strategies import DRAFTER_DTYPES, STRATEGIES
from fairseq_specdec.drafting import Drafter, DraftOptions, NarBlockDrafter, NoDrafter

from . import accepted_sizes, figures, memory, paper_sizes, peers
from .replay import NOTICE, AlignedCopy, Replay, ReplayedDrafter, ReplayedRule, Script
from .replay_flags import BLOCK_ROWS, Asked, read
from .run import Run
from .systems import Plan
from .timing import System, ours, stock
from .usage import peak_resident

logger = logging.getLogger("fairseq_specdec.bench")

# Say nothing of outputs that mean nothing.
MEANINGLESS = ("bleu", "bleu_compound", "identical_percent", "unsteady_sentences")


class ReplayedSystems:
    """The systems of a replay, on random models.

    Args:
        asked: the command line.
        folder: temporary, for other engines.
        alone: nothing else will use the models of the system that is built.
    """

    def __init__(self, asked: Asked, folder: str, alone: bool = False) -> None:
        args = asked.args
        torch.set_num_threads(args.threads)
        self.asked = asked
        self.alone = alone
        self.folder = folder
        self.models = paper_sizes.RandomModels(
            asked.size, args.vocabulary, args.seed, asked.cuda, args.fp16, folder
        )
        self.sizes = {
            name: accepted_sizes.draw(asked.weights[name], args.length, args.sentences, args.seed)
            for name in asked.strategies
        }
        self._block_drafter: Any = None

    @property
    def rows(self) -> List[Any]:
        """Beams of stock fairseq, then our strategies."""
        return [5, 1, *self.asked.strategies]

    def make(self, row: Any) -> System:
        """The system of one of ``rows``."""
        if isinstance(row, str):
            return self._ours(row)
        last = self.asked.args.length - 1
        task, verifier = self.models.task, self.models.verifier
        return stock(task, [verifier], row, min_len=last, max_len_b=last, max_len_a=0)

    def batches(self) -> List[Dict[str, Any]]:
        """The sentences, as fairseq samples."""
        args = self.asked.args
        return self.models.batches(args.sentences, args.length, args.batch_size)

    def _drafter(self, strategy: str) -> Drafter:
        words = self.models.task.target_dictionary
        args = self.asked.args
        if strategy == "greedy":
            return NoDrafter()
        if strategy == "iad":
            return AlignedCopy(words.pad(), words.eos())
        if self._block_drafter is None:
            self._block_drafter = self.models.drafter(str(self.asked.size.drafter), args.block_size)
        options = DraftOptions(
            args.block_size,
            words.pad(),
            words.eos(),
            dtype=DRAFTER_DTYPES[args.drafter_dtype],
            free_unpacked=self.alone,
        )
        return NarBlockDrafter(self._block_drafter, options)

    def _ours(self, strategy: str) -> System:
        task, verifier = self.models.task, self.models.verifier
        words = task.target_dictionary
        script = Script(dict(enumerate(self.sizes[strategy])), self.asked.args.length)
        scripted = (script, words.eos(), words.nspecial)
        rule = STRATEGIES[strategy].rule(decoding_settings(strategy=strategy))
        overrides = Overrides(
            ReplayedDrafter(self._drafter(strategy), *scripted),
            ReplayedRule(rule, *scripted),
            strategy,
        )
        more = {"name": f"{strategy} (replay)", "free_unpacked": self.alone, "overrides": overrides}
        system = ours(task, [verifier], "greedy", **more)
        return dataclasses.replace(system, generator=Replay(system.generator, script))

    def peers(self) -> List[System]:
        """Other engines on the same verifier."""
        if not self.asked.args.peers:
            return []
        words = self.models.task.target_dictionary
        for side in ("src", "tgt"):
            words.save(os.path.join(self.folder, f"dict.{side}.txt"))
        path = os.path.join(self.folder, "verifier.pt")
        self.models.save(path)
        length = self.asked.args.length  # of its steps: the engine does not count </s> apart
        plan = Plan("", (path,), {"min_len": length, "max_len_b": length})
        made = peers.makers(plan, self.asked.args.fp16)
        found: List[System] = [make(self.models) for _, make in made]
        os.remove(path)
        return found

    def described(self) -> Dict[str, Any]:
        """What is replayed; histograms count the iterations of one pass by their tokens."""
        found = {}
        for name, sizes in self.sizes.items():
            flat = [size for each in sizes for size in each]
            found[name] = {
                "distribution": self.asked.shapes[name],
                "tok": sum(flat) / len(flat),
                "histogram": {str(size): flat.count(size) for size in sorted(set(flat))},
            }
        drafter = self.asked.size.drafter if set(self.asked.strategies) & set(BLOCK_ROWS) else None
        return {
            "notice": NOTICE,
            "verifier": self.asked.size.title,
            "drafter": drafter,
            "acceptance": found,
        }


class ReplayBench(Run):
    """A run on random models.

    Args:
        replayed: makes the systems.
        words: the command line.
    """

    def __init__(self, replayed: ReplayedSystems, words: Sequence[str]) -> None:
        self.replayed = replayed
        asked = replayed.asked
        beams, strategies = replayed.rows[:2], replayed.rows[2:]
        systems = [*map(replayed.make, beams), *replayed.peers(), *map(replayed.make, strategies)]
        super().__init__(asked.args, words, systems, asked.cuda)
        settings = {key: value for key, value in vars(asked.args).items() if value is not None}
        described = [{"name": system.name} for system in systems]
        self.results.update(replay=replayed.described(), settings=settings, systems=described)

    def rows(self) -> List[Dict[str, Any]]:
        """Every system's figures but those that outputs without meaning give."""
        rows = []
        beam, greedy = self.systems[:2]
        for system in self.systems:
            # Another engine's words come back with an </s> that took no step.
            length = self.args.length
            system.tokens = {n: out[:length] for n, out in system.tokens.items()}
            strategy = system.name[: -len(" (replay)")] if system.stats else None
            row = figures.row(system, strategy, figures.Context(beam, greedy, system, None))
            row = {key: value for key, value in row.items() if key not in MEANINGLESS}
            rows.append(dict(row, sweep={}, base=system.name))
            self._check(system, strategy)
        return rows

    def _check(self, system: System, strategy: Optional[str]) -> None:
        """Whether the row did what it was to replay; what it did not is said loudly."""
        wrong = [n for n, out in system.tokens.items() if len(out) != self.args.length]
        if wrong:
            self.warn(f"{system.name}: {len(wrong)} outputs are of another length")
        if strategy is not None and system.stats is not None:
            asked = self.results["replay"]["acceptance"][strategy]["tok"]
            got = system.stats.mean_accepted_tokens
            if abs(got - asked) > 0.005 * asked:
                self.warn(f"{system.name}: {got:.2f} tokens an iteration, not {asked:.2f}")

    def memory_of(self, index: int) -> Any:
        """Peak memory of a system; other engines are alone in their processes already."""
        system, size = self.systems[index], str(self.args.batch_size)
        if isinstance(system, peers.PeerSystem):
            return {"peaks": {size: system.peak}, "before": system.worker.before}
        own = [each for each in self.systems if not isinstance(each, peers.PeerSystem)]
        return memory.measure(own.index(system), self.words, f"{__name__}:measure_here")


def measure_here(index: int, words: Sequence[str]) -> Dict[str, Any]:
    """Build row ``index`` (other engines left out) alone and decode; as ``memory.measure_here``."""
    asked = read(words)
    before = peak_resident()
    with tempfile.TemporaryDirectory(prefix="specdec-bench-") as folder:
        replayed = ReplayedSystems(asked, folder, alone=True)
        system = replayed.make(replayed.rows[index])
        most = memory.peak_of(system, replayed.batches()[-memory.LONGEST :], asked.cuda)
    peaks = {str(asked.args.batch_size): most}
    return {"peaks": peaks, "before": 0 if asked.cuda else before}


def main(words: Sequence[str], say: Any) -> Dict[str, Any]:
    """Run the replay; arguments, result and errors as of ``cli.main``."""
    asked = read(words)
    logger.warning("%s", NOTICE)
    with tempfile.TemporaryDirectory(prefix="specdec-bench-") as folder:
        replayed = ReplayedSystems(asked, folder)
        bench = ReplayBench(replayed, words)
        try:
            bench.measure(replayed.batches(), asked.args.batch_size, "replay", bench.rows)
            if not asked.args.no_memory:
                bench.measure_memory(bench.memory_of)
        finally:
            peers.close(bench.systems)
    bench.write()
    say(bench.text())
    return bench.results
