"""``specdec-bench --replay``: its own flags, and the command line that they stand for."""

from __future__ import annotations

import argparse
import collections
import itertools
import os
import shlex
import statistics
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from fairseq_specdec.config import TranslationSpecDecConfig
from fairseq_specdec.io.flag_values import AT_LEAST_1, InRange, Range, check_flags, check_value

from . import accepted_sizes, flags, random_pair
from .workload import BenchError, refuse

BLOCK_ROWS = ("gad", "gad++")
STRATEGY_ROWS = ("greedy", *BLOCK_ROWS, "iad")
BLOCK_SIZE = 25
TITLES = "; ".join(f"{name}: {size.title}" for name, size in random_pair.SIZES.items())

FLAGS: flags.Flags = {
    "--replay": dict(
        metavar="SIZE",
        help="measure the engine at a paper's size: models and sentences are random, and how many "
        f"tokens an iteration keeps is drawn; instead of data and --path; {TITLES} (default: off)",
    ),
    "--strategies": dict(
        metavar="NAME[,NAME]",
        help="rows of a replay beside stock: greedy, gad, gad++, iad (default: greedy, gad and "
        "gad++ where the size has a drafter, iad where --mean-copied is given)",
    ),
    "--mean-accepted": dict(
        type=float, metavar="TOK",
        help="tokens an iteration of gad and gad++ emits on average, from 1 to k+1, the "
        "verifier's own included (Tok. in the papers: 8.23 in Xia et al. 2023, Table 2); sizes are "
        "drawn as if every draft token were right with one probability; required by these rows of "
        "a replay (default: none)",
    ),
    "--mean-copied": dict(
        type=float, metavar="TOK",
        help="tokens an iteration of iad emits on average, from 1 to --length; required by "
        "that row of a replay (default: none)",
    ),
    "--vocabulary": dict(
        action=InRange, values=Range(16, whole=True), default=32000,
        help="tokens in a replay, %(values)s (default: 32000)",
    ),
    "--sentences": dict(
        action=InRange, values=AT_LEAST_1, default=8,
        help="how many it decodes, %(values)s (default: 8)",
    ),
    "--length": dict(
        action=InRange, values=Range(2, 200, whole=True), default=27,  # fairseq's default limit
        help="tokens of each, </s> included, %(values)s (default: 27)",
    ),
}  # fmt: skip
# Other flags that a replay honours.
SHARED = (
    "--backend", "--batch-size", "--block-size", "--cpu", "--drafter-dtype", "--fp16",
    "--max-sentences", "--resume", "--seed", "--stock-beams", "--verifier-dtype",
    *flags.PASSES, *flags.PEERS, *flags.FILES,
)  # fmt: skip


class Replay(NamedTuple):
    """What a replay replays.

    Attributes:
        size: of the models.
        sizes: for each strategy, of each sentence, the tokens that each iteration emits.
        shapes: where each strategy's came from, in words.
        length: tokens of every sentence.
        block_size: of the drafter.
        seed: of the weights.
    """

    size: random_pair.Size
    sizes: Dict[str, List[List[int]]]
    shapes: Dict[str, str]
    length: int
    block_size: int
    seed: int

    def tok(self, strategy: str) -> float:
        """Tokens an iteration of a strategy."""
        return statistics.fmean(itertools.chain(*self.sizes[strategy]))

    def described(self) -> Dict[str, Any]:
        """For the results; histograms count the iterations of one pass by their tokens."""
        found = {}
        for name, sizes in self.sizes.items():
            counts = sorted(collections.Counter(itertools.chain(*sizes)).items())
            found[name] = {
                "distribution": self.shapes[name],
                "tok": self.tok(name),
                "histogram": {str(size): count for size, count in counts},
            }
        drafter = self.size.drafter if set(self.sizes) & set(BLOCK_ROWS) else None
        return {"verifier": self.size.title, "drafter": drafter, "acceptance": found}


def asked(words: Sequence[str]) -> bool:
    """Whether a command line is one of a replay."""
    return any(word.partition("=")[0] == "--replay" for word in words)


def _strategies(args: argparse.Namespace, size: random_pair.Size) -> List[str]:
    if args.strategies is None:
        copied = ["iad"] if args.mean_copied is not None else []
        return ["greedy", *(BLOCK_ROWS if size.drafter else ()), *copied]
    names: List[str] = args.strategies.split(",")
    if not set(names) <= set(STRATEGY_ROWS) or len(set(names)) < len(names):
        rows = ", ".join(STRATEGY_ROWS)
        raise BenchError(f"--strategies {args.strategies}: choose different ones of {rows}")
    return names


def _check(args: argparse.Namespace, words: Sequence[str]) -> None:
    """Refuse values that no replay can have, and flags that it does not honour."""
    for word in words:
        flag = word.partition("=")[0]
        if flag.startswith("-") and flag[1:2].isalpha() or flag.startswith("--"):
            if flag not in FLAGS and flag not in SHARED:
                raise BenchError(f"{flag}: has no meaning with --replay; leave it out")
    check_value("--replay", args.replay, tuple(random_pair.SIZES))
    check_flags(args, TranslationSpecDecConfig)


def _check_rows(args: argparse.Namespace, strategies: List[str], size: random_pair.Size) -> None:
    """Refuse rows that lack something, and flags of rows that are not measured."""
    drafting = [name for name in strategies if name in BLOCK_ROWS]
    refuse({
        f"--strategies {''.join(drafting[:1])}: the paper has no drafter for {args.replay}; "
        "choose another size": drafting and size.drafter is None,
        "--mean-accepted: gad and gad++ need it, and no other row does; give both or neither (Xia "
        "et al. 2023, Table 2: 8.23 for a block size of 25)":
            bool(drafting) != (args.mean_accepted is not None),
        "--mean-copied: the iad row needs it, and no other does; give both or neither":
            ("iad" in strategies) != (args.mean_copied is not None),
    })  # fmt: skip


def _acceptance(args: argparse.Namespace, strategy: str) -> Tuple[List[float], str]:
    """Weights of the sizes of a strategy's iterations from 1, and their origin in words."""
    if strategy == "greedy":
        return [1.0], "nothing is drafted"
    largest, mean, flag, what = args.length, args.mean_copied, "--mean-copied", "copied"
    if strategy in BLOCK_ROWS:
        largest = min(args.block_size + 1, args.length)
        mean, flag, what = args.mean_accepted, "--mean-accepted", "draft"
    weights = accepted_sizes.constant_acceptance(largest, mean, args.length, flag)
    return weights, f"every {what} token right alike, {mean:g} tokens an iteration asked"


def read(args: argparse.Namespace, words: Sequence[str]) -> Replay:
    """Check the flags of a replay, and draw what it replays; nothing is built.

    Args:
        args: the command line as parsed.
        words: the same as words.

    Raises:
        BenchError: naming the flag.
    """
    args.block_size = BLOCK_SIZE if args.block_size is None else args.block_size
    _check(args, words)
    size = random_pair.SIZES[args.replay]
    strategies = _strategies(args, size)
    _check_rows(args, strategies, size)
    sizes, shapes = {}, {}
    for name in strategies:
        weights, shapes[name] = _acceptance(args, name)
        sizes[name] = accepted_sizes.draw(weights, args.length, args.sentences, args.seed)
    return Replay(size, sizes, shapes, args.length, args.block_size, args.seed)


def fill(args: argparse.Namespace, replay: Replay, folder: str) -> None:
    """Write data, and what other engines read, unless they are there; let ``args`` name them."""
    verifier, drafter = (
        os.path.join(folder, f) for f in (random_pair.VERIFIER, random_pair.DRAFTER)
    )
    if not os.path.exists(drafter):
        task = random_pair.write(args, folder)
        if args.peers:
            random_pair.save_verifier(replay.size, task, args.seed, verifier)
        for path in (verifier, drafter):  # so that they exist; the models are made where needed
            open(path, "ab").close()
    last = args.length - 1  # </s> comes after these
    args.data, args.path, args.gen_subset = folder, verifier, random_pair.SPLIT
    args.source_lang, args.target_lang = random_pair.SOURCE, random_pair.TARGET
    args.min_len, args.max_len_a, args.max_len_b = last, 0, last
    own = f" --drafter-path {shlex.quote(drafter)} --drafter-dtype {args.drafter_dtype}"
    args.drafter_dtype = "auto"  # of rows that have no drafter
    args.system = [
        f"{name} (replay): --strategy {name}" + (own if name in BLOCK_ROWS else "")
        for name in replay.sizes
    ]
