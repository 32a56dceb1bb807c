"""Decoding whose acceptance is replayed: the engine at a paper's size, without its training.

    python benchmarks/replay.py base --mean-accepted 8.23 --repeats 3 --cpu

Models of the papers' sizes were not trained here. Their cost does not depend on their weights but
on how many tokens each iteration keeps: that is drawn, and everything else (encoders, drafting,
verification of k+1 positions, the rule's own arithmetic, rollback of the caches) is done in full.

Flags that are not listed go to peers.py: ``--peers``, ``--batch-size``, ``--json``, ...
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import functools
import itertools
import logging
import os
import shlex
import statistics
import sys
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple

import isa

if __name__ == "__main__":  # before torch is loaded
    isa.hold()

import accepted_sizes
import peers
import random_pair
from scripted import ReplayedDrafter, ReplayedGenerator, ReplayedRule, Script

from fairseq_specdec.bench import session, systems
from fairseq_specdec.bench.timing import System
from fairseq_specdec.bench.workload import Workload, refuse
from fairseq_specdec.commands.own import reporting
from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.builder import Overrides
from fairseq_specdec.decoding.strategies import STRATEGIES, Setup
from fairseq_specdec.io.flag_values import AT_LEAST_1, Range, add_flag

NOTICE = (
    "REPLAY: the models have random weights, and how many tokens each iteration keeps is drawn "
    "from a distribution, not found by comparing drafts. Times are real; outputs mean nothing, so "
    "there is no quality to report."
)
FILES = ("verifier.pt", "drafter.pt")
PLANNED = "planned"
BLOCK_ROWS = ("gad", "gad++", PLANNED)
ROWS = ("greedy", *BLOCK_ROWS)
STRATEGIES_OF_ROWS = {PLANNED: "gad"}  # of the others, their names
TITLES = "; ".join(f"{name}: {size.title}" for name, size in random_pair.SIZES.items())
# Figures that compare outputs or drafts, which mean nothing here.
OUTPUT_FIGURES = (
    "acceptance_by_position", "bleu", "bleu_compound", "exact_percent", "identical_percent",
    "identical_to", "unsteady_sentences", "lossless", "near_ties", "score_difference",
)  # fmt: skip

FLAGS: dict[str, dict[str, Any]] = {
    "--strategies": dict(
        text="rows beside stock: greedy, gad and gad++ in whole blocks, planned (gad that drafts "
        "as much as pays)", metavar="NAME[,NAME]",
        otherwise="greedy, and the others where the size has a drafter",
    ),
    "--mean-accepted": dict(
        type=float, metavar="TOK",
        text="tokens that gad and gad++ emit per iteration on average, from 1 to k+1, the "
        "verifier's own included (Tok. in the papers: 8.23 in Xia et al. 2023, Table 2); sizes are "
        "drawn as if every draft token were right with one probability, which planned drafts have "
        "too; required by these rows",
    ),
    "--block-size": dict(text="of the drafter", values=AT_LEAST_1, default=25),
    "--drafter-dtype": dict(text="number format of gad and gad++", default="auto"),
    "--vocabulary": dict(text="tokens", values=Range(16, whole=True), default=32000),
    "--sentences": dict(text="how many", values=AT_LEAST_1, default=8),
    "--length": dict(
        text="tokens of each, </s> included", values=Range(2, 200, whole=True), default=27,
    ),  # fairseq's default limit
    "--seed": dict(text="of weights and draws", type=int, default=1),
}  # fmt: skip
# Flags of specdec-bench that would change what is replayed.
FIXED = ("--system", "--sweep", "--path", "--min-len", "-s", "-t", "--gen-subset", "--limit")


class Replay(NamedTuple):
    """What is replayed.

    Attributes:
        args: the flags.
        size: of the models.
        sizes: for each row, of each sentence, the tokens that each iteration emits at most.
    """

    args: argparse.Namespace
    size: random_pair.Size
    sizes: dict[str, list[list[int]]]

    def tok(self, row: str) -> float:
        """Tokens an iteration of a row."""
        return statistics.fmean(itertools.chain(*self.sizes[row]))

    def described(self) -> dict[str, Any]:
        """For the results; histograms count the iterations of one pass by their tokens."""
        acceptance = {}
        how = f"every draft token equally likely to be right, {self.args.mean_accepted} asked"
        for name, sizes in self.sizes.items():
            counts = sorted(collections.Counter(itertools.chain(*sizes)).items())
            acceptance[name] = {
                "distribution": how if name in BLOCK_ROWS else "nothing is drafted",
                "tok": self.tok(name),
                "histogram": {str(size): count for size, count in counts},
            }
        drafter = self.size.drafter if set(self.sizes) & set(BLOCK_ROWS) else None
        return {"verifier": self.size.title, "drafter": drafter, "acceptance": acceptance}


def build(plan: systems.Plan, workload: Workload, replay: Replay) -> System:
    """``systems.build`` with the strategy's drafter and rule under a script."""
    settings = decoding_settings(**plan.settings)
    symbols, models = workload.task.target_dictionary, workload.models(plan.paths)
    row = plan.name.partition(" ")[0]
    strategy, eos = STRATEGIES[settings.strategy], symbols.eos()
    setup = Setup(
        settings, models, symbols, symbols, lambda path, src, tgt, read, _: read(path, src, tgt),
        eos,
    )  # fmt: skip
    script = Script(dict(enumerate(replay.sizes[row])), replay.args.length, symbols)
    overrides = Overrides(
        ReplayedDrafter(strategy.drafter(setup), script, row == PLANNED),
        ReplayedRule(strategy.rule(settings), script),
    )
    # Drafts are not cut at the end, as where it is not known before.
    free = plan._replace(generation={**plan.generation, "min_len": 1, "max_len_b": 200})
    system = systems.build(free, workload, overrides=overrides)
    return dataclasses.replace(
        system, generator=ReplayedGenerator(system.generator, script), step=None
    )


class ReplayBench(peers.PeersBench):
    """A run of ``peers.py`` whose own systems follow scripts. ``asked``, ``options``: the command
    line of specdec-bench, and what peers.py adds; ``arguments``: that of this
    benchmark."""

    def __init__(self, asked: Any, options: Any, replay: Replay, arguments: Sequence[str]) -> None:
        self.replay = replay
        make = functools.partial(build, replay=replay)
        asked = asked._replace(plans=[plan._replace(make=make) for plan in asked.plans])
        super().__init__(asked, options, arguments, "replay.py")
        what, args = replay.described(), vars(replay.args)
        form = "drafter {drafter} with k = {block_size}, " if what["drafter"] else ""
        form += "vocabulary {vocabulary}; {sentences} sentences of {length} tokens"
        self.results["title"] = ("REPLAY: {verifier}, " + form).format(**what, **args)
        self.results["notice"] = NOTICE
        self.results["notes"] += [
            f"{name}: {'whole blocks would emit' if name == PLANNED else 'replays'} "
            f"{each['tok']:.2f} tokens per iteration; "
            f"{each['distribution']}."
            for name, each in what["acceptance"].items()
        ]
        self.results["replay"] = what
        self.results["settings"].update(args, data=None)
        self.results["provenance"]["checkpoints"] = {}

    def measure_rows(self, references: list[System], size: int) -> list[dict[str, Any]]:
        """The rows of a batch size, less what compares outputs."""
        for system in self.systems:
            # CTranslate2's tokens come back with an </s> that took no step.
            length = self.replay.args.length
            system.tokens = {n: output[:length] for n, output in system.tokens.items()}
        rows = super().measure_rows(references, size)
        return [{k: v for k, v in row.items() if k not in OUTPUT_FIGURES} for row in rows]

    def faults(self, system: System, plan: systems.Plan, reference: System) -> list[str]:
        """What a system that was measured did not do that it was to."""
        texts, row, length = [], plan.name.partition(" ")[0], self.replay.args.length
        wrong = sum(len(output) != length for output in system.tokens.values())
        if wrong:
            texts.append(f"{system.name}: {wrong} outputs are of another length")
        if system.stats is not None and row in self.replay.sizes and row != PLANNED:
            got, tok = system.stats.mean_accepted_tokens, self.replay.tok(row)
            if abs(got - tok) > 0.005 * tok:
                texts.append(f"{system.name}: {got:.2f} tokens per iteration, not {tok:.2f}")
        return texts


def _rows(args: argparse.Namespace, size: random_pair.Size) -> list[str]:
    """The rows beside stock; ValueError where they, or flags that go with them, do not fit."""
    names = ["greedy", *(BLOCK_ROWS if size.drafter else ())]
    if args.strategies is not None:
        names = args.strategies.split(",")
    drafting = [name for name in names if name in BLOCK_ROWS]
    refuse({
        f"--strategies {args.strategies}: choose different ones of {', '.join(ROWS)}":
            not set(names) <= set(ROWS) or len(set(names)) < len(names),
        f"--strategies {''.join(drafting[:1])}: the paper has no drafter for {args.size}; "
        "choose another size": drafting and size.drafter is None,
        "--mean-accepted: gad, gad++ and planned need it, and no other row does; give both or "
        "neither (Xia et al. 2023, Table 2: 8.23 for a block size of 25)":
            bool(drafting) != (args.mean_accepted is not None),
    })  # fmt: skip
    return names if "greedy" in names else ["greedy", *names]  # what drafts are compared with


def get_parser() -> argparse.ArgumentParser:
    """The benchmark's own flags."""
    text, form = str(__doc__), argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=text, formatter_class=form, allow_abbrev=False)
    parser.add_argument("size", metavar="SIZE", help=TITLES)
    for name, settings in FLAGS.items():
        add_flag(parser, name, **settings)
    return parser


def read(arguments: Sequence[str]) -> tuple[Replay, list[str]]:
    """Check the command line, and draw what is replayed; nothing is built.

    Returns:
        the replay, and the flags of specdec-bench.

    Raises:
        ValueError: naming the flag.
    """
    args, rest = get_parser().parse_known_args(list(arguments))
    given = [flag.partition("=")[0] for flag in rest]
    refuse({
        **{f"{flag}: has no meaning in a replay; leave it out": flag in given for flag in FIXED},
        f"{args.size}: no size of a paper; choose one of {', '.join(random_pair.SIZES)}":
            args.size not in random_pair.SIZES,
    })  # fmt: skip
    size = random_pair.SIZES[args.size]
    sizes, largest = {}, min(args.block_size + 1, args.length)
    for name in _rows(args, size):
        weights = [1.0]
        if name in BLOCK_ROWS:
            weights = accepted_sizes.constant_acceptance(largest, args.mean_accepted, args.length)
        # How many planned tokens are accepted depends on how many are drafted.
        draw = accepted_sizes.draw_each if name == PLANNED else accepted_sizes.draw
        sizes[name] = draw(weights, args.length, args.sentences, args.seed)
    return Replay(args, size, sizes), rest


def command_line(replay: Replay, folder: str) -> list[str]:
    """The command line of specdec-bench on the files of a folder."""
    verifier, drafter = (os.path.join(folder, name) for name in FILES)
    last = str(replay.args.length - 1)  # </s> comes after these
    arguments = [folder, "--path", verifier, "--gen-subset", random_pair.SPLIT]
    arguments += ["-s", random_pair.SOURCE, "-t", random_pair.TARGET]
    arguments += ["--seed", str(replay.args.seed)]
    arguments += ["--min-len", last, "--max-len-a", "0", "--max-len-b", last]
    own = f" --drafter-path {shlex.quote(drafter)} --drafter-dtype {replay.args.drafter_dtype}"
    for name in replay.sizes:
        strategy = STRATEGIES_OF_ROWS.get(name, name)
        row = f"{name} (replay): --strategy {strategy}" + (own if name in BLOCK_ROWS else "")
        arguments += ["--system", row]
    return arguments


def main(arguments: Sequence[str], write: Any) -> dict[str, Any]:
    """Run the benchmark: what ``--json`` writes. Raises ValueError: naming the flag."""
    replay, rest = read(arguments)
    options, rest = peers.get_parser().parse_known_args(rest)
    refuse({"--memory: has no meaning in a replay; leave it out": options.memory})
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        for name in FILES:  # flags are checked before models are made
            open(os.path.join(folder, name), "ab").close()
        asked = session.read([*command_line(replay, folder), *rest])
        logging.getLogger("fairseq_specdec.bench").warning("%s", NOTICE)
        args, size, task = replay.args, replay.size, random_pair.write(replay.args, folder)
        verifier, drafter = (os.path.join(folder, name) for name in FILES)
        random_pair.save(random_pair.verifier(size, task, args.seed), verifier)
        if set(replay.sizes) & set(BLOCK_ROWS):
            random_pair.save(random_pair.drafter(size, task, args.seed, args.block_size), drafter)
        return ReplayBench(asked, options, replay, arguments).run(write)


if __name__ == "__main__":
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    with reporting("replay.py", sys.argv[1:]):
        main(sys.argv[1:], sys.stdout.write)
