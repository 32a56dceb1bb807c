"""``specdec-bench --replay SIZE``: the engine at the papers' scale, without their training.

Models of a paper's size with random weights decode random sentences; how many tokens an iteration
keeps is replayed from a distribution. See ``replay`` and docs/benchmarks.md.
"""

from __future__ import annotations

import logging
import os
import tempfile
from typing import Any, Dict, List, Optional, Sequence

from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.builder import Overrides, build_generator
from fairseq_specdec.decoding.stats import DecodingStats
from fairseq_specdec.decoding.strategies import DRAFTER_DTYPES, STRATEGIES
from fairseq_specdec.drafting import Drafter, DraftOptions, NarBlockDrafter, NoDrafter

from . import (
    accepted_sizes,
    energy,
    figures,
    machine,
    memory,
    outputs,
    paper_sizes,
    peers,
    tables,
    threads,
)
from .peer_process import PeerSystem
from .replay import NOTICE, AlignedCopy, Replay, ReplayedDrafter, ReplayedRule, Script
from .replay_flags import BLOCK_ROWS, Asked, read
from .systems import Plan
from .timing import System, generation_flags, run_paired, stock

logger = logging.getLogger("fairseq_specdec.bench")

# Say nothing of outputs that mean nothing.
MEANINGLESS = ("bleu", "bleu_compound", "identical_percent", "unsteady_sentences")


class ReplayBench:
    """A run of the command.

    Args:
        asked: the command line.
        words: its words.
        folder: temporary, for other engines.
        alone: build this system only, counted from 0 with other engines left out; nothing else
            will use its models.
    """

    def __init__(
        self, asked: Asked, words: Sequence[str], folder: str, alone: Optional[int] = None
    ) -> None:
        args = asked.args
        self.asked = asked
        self.words = words
        self.alone = alone
        self.folder = folder
        peers.set_threads(args)
        self.models = paper_sizes.RandomModels(
            asked.size, args.vocabulary, args.seed, asked.cuda, args.fp16, folder
        )
        self.sizes = {
            name: accepted_sizes.draw(asked.weights[name], args.length, args.sentences, args.seed)
            for name in asked.strategies
        }
        self._block_drafter: Any = None
        self.systems = self._systems()
        self.run: Dict[str, Any] = {
            "replay": self._described(),
            "provenance": machine.record(
                "specdec-bench", words, [], asked.cuda, peers.versions(self.systems)
            ),
            "settings": {key: value for key, value in vars(args).items() if value is not None},
            "systems": [{"name": system.name} for system in self.systems],
            "quality": None,
            "memory": None,
            "energy": None,
            "warnings": [],
            "runs": [],
        }

    def _described(self) -> Dict[str, Any]:
        """What is replayed; histograms count the iterations of one pass by their tokens."""
        found = {}
        for name, sizes in self.sizes.items():
            flat = [size for each in sizes for size in each]
            found[name] = {
                "distribution": self.asked.shapes[name],
                "tok": sum(flat) / len(flat),
                "histogram": {str(size): flat.count(size) for size in sorted(set(flat))},
            }
        drafter = self.asked.arch if set(self.asked.strategies) & set(BLOCK_ROWS) else None
        return {
            "notice": NOTICE,
            "verifier": self.asked.size.title,
            "drafter": drafter,
            "acceptance": found,
        }

    def _drafter(self, strategy: str) -> Drafter:
        words = self.models.task.target_dictionary
        args = self.asked.args
        if strategy == "greedy":
            return NoDrafter()
        if strategy == "iad":
            return AlignedCopy(words.pad(), words.eos())
        if self._block_drafter is None:
            self._block_drafter = self.models.drafter(
                str(self.asked.arch), args.block_size, args.bidirectional_prefix
            )
        options = DraftOptions(
            args.block_size,
            words.pad(),
            words.eos(),
            dtype=DRAFTER_DTYPES[args.drafter_dtype],
            free_unpacked=self.alone is not None,
        )
        return NarBlockDrafter(self._block_drafter, options)

    def _ours(self, strategy: str) -> System:
        words = self.models.task.target_dictionary
        stats = DecodingStats()
        script = Script(dict(enumerate(self.sizes[strategy])), self.asked.args.length)
        rule = STRATEGIES[strategy].rule(decoding_settings(strategy=strategy))
        scripted = (script, words.eos(), words.nspecial)
        generator = build_generator(
            [self.models.verifier],
            words,
            words,
            generation_flags(beam=1),
            decoding_settings(),
            stats=stats,
            free_unpacked=self.alone is not None,
            overrides=Overrides(
                ReplayedDrafter(self._drafter(strategy), *scripted),
                ReplayedRule(rule, *scripted),
                strategy,
            ),
        )
        replay = Replay(generator, script)
        return System(f"{strategy} (replay)", replay, [self.models.verifier], stats)

    def _peers(self) -> List[System]:
        words = self.models.task.target_dictionary
        for side in ("src", "tgt"):
            words.save(os.path.join(self.folder, f"dict.{side}.txt"))
        path = os.path.join(self.folder, "verifier.pt")
        self.models.save(path)
        length = self.asked.args.length  # of its steps: the engine does not count </s> apart
        plan = Plan("", (), {}, {"min_len": length, "max_len_b": length}, (path,), {}, "")
        made = peers.makers(plan, self.asked.args.fp16, self.asked.engines)
        found: List[System] = [make(self.models) for _, make in made]
        os.remove(path)
        return found

    def _systems(self) -> List[System]:
        last = self.asked.args.length - 1
        task, verifier = self.models.task, self.models.verifier

        def make(row: Any) -> System:
            if isinstance(row, str):
                return self._ours(row)
            return stock(task, [verifier], row, min_len=last, max_len_b=last, max_len_a=0)

        rows = [5, 1, *self.asked.strategies]  # beams of stock fairseq, then ours
        if self.alone is not None:
            return [make(rows[self.alone])]
        others = self._peers() if self.asked.engines else []
        return [make(5), make(1), *others, *map(make, self.asked.strategies)]

    def measure(self) -> None:
        """Run every system, and add the figures."""
        args = self.asked.args
        batches = self.models.batches(args.sentences, args.length, args.batch_size)
        run_paired(self.systems, batches, args.warmup, args.repeats, "replay")
        beam, greedy = self.systems[:2]
        meter = None if args.no_energy else energy.find(self.asked.cuda)
        joules: Dict[str, float] = {}
        if meter is not None:
            self.run["energy"] = meter.what
            joules = energy.a_sentence(self.systems, batches, meter, args.seed)
        rows = []
        for system in self.systems:
            # Another engine's words come back with an </s> that took no step.
            system.tokens = {n: out[: args.length] for n, out in system.tokens.items()}
            strategy = system.name[: -len(" (replay)")] if system.stats else None
            row = figures.row(system, strategy, figures.Context(beam, greedy, system, None))
            row = {key: value for key, value in row.items() if key not in MEANINGLESS}
            rows.append(dict(row, sweep={}, base=system.name, energy_j=joules.get(system.name)))
            self._check(system, strategy)
        ups = {}
        if args.batch_size == 1:
            ups = {s.name: [round(x, 4) for x in figures.speed_ups(s, beam)] for s in self.systems}
        self.run["runs"].append(
            {
                "batch_size": args.batch_size,
                "rows": rows,
                "ms_by_batch": {
                    s.name: [round(1000 * t, 4) for t in s.seconds] for s in self.systems
                },
                "seconds_by_pass": {
                    s.name: [round(sum(passes), 6) for passes in zip(*s.times)]
                    for s in self.systems
                },
                "thread_warnings": threads.warnings(self.systems, self.asked.cuda, args.batch_size),
                "speed_ups": ups,
                "by_edit_ratio": {},
            }
        )

    def measure_memory(self) -> None:
        """Add every system's peak memory, measured in a process of its own."""
        own = [system for system in self.systems if not isinstance(system, PeerSystem)]
        found = {s.name: memory.measure(i, self.words, memory.REPLAY) for i, s in enumerate(own)}
        for system in self.systems:
            if isinstance(system, PeerSystem):
                peaks = {"": system.worker.peak}
                found[system.name] = {"peaks": peaks, "before": system.worker.before}
        for row in self.run["runs"][0]["rows"]:
            memory.add(row, found[row["system"]], "")
        self.run["memory"] = memory.NOTE_GPU if self.asked.cuda else memory.NOTE_CPU

    def _check(self, system: System, strategy: Optional[str]) -> None:
        """Whether the row did what it was to replay; what it did not is said loudly."""
        wrong = [n for n, out in system.tokens.items() if len(out) != self.asked.args.length]
        if wrong:
            self._warn(f"{system.name}: {len(wrong)} outputs are of another length")
        if strategy is not None and system.stats is not None:
            asked = self.run["replay"]["acceptance"][strategy]["tok"]
            got = system.stats.mean_accepted_tokens
            if abs(got - asked) > 0.005 * asked:
                self._warn(f"{system.name}: {got:.2f} tokens an iteration, not {asked:.2f}")

    def _warn(self, text: str) -> None:
        self.run["warnings"].append(text)
        logger.warning("WARNING: %s", text)

    def markdown(self) -> str:
        """The tables under the notice, and what they were measured on."""
        part, facts = self.run["runs"][0], self.run["provenance"]
        parts = [tables.title(self.run), NOTICE]
        parts += [tables.markdown(tables.speed(self.run), part["rows"])]
        parts += [tables.markdown(tables.TIME, part["rows"])]
        parts += [f"WARNING: {text}" for text in self.run["warnings"]]
        parts.append("\n".join(f"- {line}" for line in tables.legend(self.run)))
        parts.append(f"{machine.line(facts)}\n\n    {facts['command']}")
        return "\n\n".join(parts) + "\n"

    def write(self) -> None:
        """Write the files asked for."""
        outputs.write(self.asked.args, self.run, self.markdown(), replay=True)


def main(words: Sequence[str], say: Any) -> Dict[str, Any]:
    """Run the replay.

    Args:
        words: the command line.
        say: prints text.

    Returns:
        what ``--json`` writes.

    Raises:
        BenchError: naming the flag.
    """
    asked = read(words)
    logger.warning("%s", NOTICE)
    with tempfile.TemporaryDirectory(prefix="specdec-bench-") as folder:
        bench = ReplayBench(asked, words, folder)
        try:
            bench.measure()
            if not asked.args.no_memory:
                bench.measure_memory()
        finally:
            peers.close(bench.systems)
    bench.write()
    say(bench.markdown())
    return bench.run
