"""The command line of ``specdec-bench --replay``: read and checked; nothing is built."""

from __future__ import annotations

import argparse
from typing import Dict, List, NamedTuple, NoReturn, Sequence, Tuple

import torch

import fairseq_specdec.tasks  # noqa: F401  (registers the drafters' architectures)
from fairseq_specdec.decoding.strategies import DRAFTER_DTYPES

from . import accepted_sizes, flags, paper_sizes, peers
from .replay import NOTICE
from .systems import Plan
from .workload import BenchError

BLOCK_ROWS = ("gad", "gad++")
STRATEGY_ROWS = ("greedy", *BLOCK_ROWS, "iad")
TITLES = "; ".join(f"{name}: {size.title}" for name, size in paper_sizes.SIZES.items())

FLAGS: flags.Flags = {
    "--replay": dict(
        required=True, choices=paper_sizes.SIZES, metavar="SIZE", help=f"required; {TITLES}"
    ),
    "--strategies": dict(
        metavar="NAME[,NAME]",
        help="rows beside stock: greedy, gad, gad++, iad (default: greedy, gad and gad++ where "
        "the size has a drafter, iad where --mean-copied is given)",
    ),
    "--block-size": dict(
        type=int, default=25, help="k, tokens drafted at once, 1 or more (default: 25)"
    ),
    "--mean-accepted": dict(
        type=float, metavar="TOK",
        help="tokens an iteration of gad and gad++ emits on average, from 1 to k+1, the "
        "verifier's own included (Tok. in the papers: 8.23 in Xia et al. 2023, Table 2); sizes are "
        "drawn as if every draft token were right with one probability, unless another flag gives "
        "their distribution; these rows require it or --accepted-from (default: none)",
    ),
    "--accepted-from": dict(
        metavar="TRACE",
        help="take the distribution from a trace of --trace-path, tilted to --mean-accepted, by "
        "default to the trace's own mean",
    ),
    "--mean-copied": dict(
        type=float, metavar="TOK",
        help="tokens an iteration of iad emits on average, from 1 to --length; required by "
        "that row (default: none)",
    ),
    "--drafter-dtype": dict(
        default="same", help="as for decoding: same (the default), fp32, fp16 or bf16"
    ),
    "--vocabulary": dict(type=int, default=32000, help="tokens, 16 or more (default: 32000)"),
    "--sentences": dict(
        type=int, default=8, help="how many are decoded, 1 or more (default: 8)"
    ),
    "--length": dict(
        type=int, default=27,
        help="tokens of each, </s> included, from 2 to 200 (default: 27)",
    ),
    "--batch-size": dict(
        type=int, default=1, help="sentences at a time, 1 or more (default: 1)"
    ),
    "--seed": dict(type=int, default=1, help="of weights, sentences and sizes (default: 1)"),
    "--cpu": dict(action="store_true", help="stay off the GPU (default: off)"),
    "--fp16": dict(action="store_true", help="half precision, on a GPU (default: off)"),
}  # fmt: skip
LEAST = {"block_size": 1, "vocabulary": 16, "sentences": 1, "length": 2, "batch_size": 1}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BenchError(f"--replay: {message}")


def get_parser() -> argparse.ArgumentParser:
    """The command's flags."""
    parser = _Parser(prog="specdec-bench", description=NOTICE, allow_abbrev=False)
    flags.add(parser, FLAGS, flags.passes(repeats=3, warmup=1), flags.PEERS, flags.FILES)
    return parser


class Asked(NamedTuple):
    """The command line, checked.

    Attributes:
        args: as parsed.
        size: of the models.
        strategies: rows beside stock.
        weights: for every strategy, of the sizes of its iterations from 1.
        shapes: where each came from, in words.
    """

    args: argparse.Namespace
    size: paper_sizes.Size
    strategies: List[str]
    weights: Dict[str, List[float]]
    shapes: Dict[str, str]

    @property
    def cuda(self) -> bool:
        """Whether a GPU does the work."""
        return torch.cuda.is_available() and not self.args.cpu


def _strategies(args: argparse.Namespace, size: paper_sizes.Size) -> List[str]:
    if args.strategies is None:
        copied = ["iad"] if args.mean_copied is not None else []
        return ["greedy", *(BLOCK_ROWS if size.drafter else ()), *copied]
    names: List[str] = args.strategies.split(",")
    for name in names:
        if name not in STRATEGY_ROWS or names.count(name) > 1:
            raise BenchError(
                f"--strategies {args.strategies}: choose different ones of "
                f"{', '.join(STRATEGY_ROWS)}"
            )
    return names


def _block_weights(args: argparse.Namespace) -> Tuple[List[float], str]:
    """Weights of the sizes of a block drafter's iterations, and their origin in words."""
    mean, flag = args.mean_accepted, "--mean-accepted"
    if args.accepted_from is None:
        if mean is None:
            raise BenchError(
                "--mean-accepted: gad and gad++ need it, or --accepted-from; 8.23 is what Xia et "
                "al. 2023, Table 2 has for a block size of 25"
            )
        largest = min(args.block_size + 1, args.length)
        weights = accepted_sizes.constant_acceptance(largest, mean, args.length, flag)
        return weights, f"every draft token right alike, {mean:g} tokens an iteration asked"
    flag_from = "--accepted-from"
    weights = accepted_sizes.recorded(args.accepted_from, args.block_size + 1, flag_from)
    if mean is None:
        mean, flag = accepted_sizes.mean_size(weights), f"{flag_from}: mean"
    weights = accepted_sizes.tilted_to(weights, mean, args.length, flag)
    return weights, f"recorded: {args.accepted_from}; tilted to {mean:g} tokens an iteration"


def _check(args: argparse.Namespace) -> None:
    """Refuse values that no replay can have."""
    flags.check_least(args, LEAST)
    flags.check_common(args)
    if args.length > 200:
        raise BenchError(f"--length {args.length}: at most 200, fairseq's default limit")
    if args.drafter_dtype not in DRAFTER_DTYPES:
        raise BenchError(
            f"--drafter-dtype {args.drafter_dtype}: choose one of {', '.join(DRAFTER_DTYPES)}"
        )
    if args.fp16 and (args.cpu or not torch.cuda.is_available()):
        raise BenchError("--fp16: needs a GPU; leave it out")


def _check_rows(args: argparse.Namespace, strategies: List[str], size: paper_sizes.Size) -> None:
    """Refuse rows that lack something, and flags of rows that are not measured."""
    drafting = [name for name in strategies if name in BLOCK_ROWS]
    if drafting and size.drafter is None:
        raise BenchError(
            f"--strategies {drafting[0]}: the paper has no drafter for {args.replay}; "
            "choose another size"
        )
    for name in ("mean_accepted", "accepted_from"):
        if not drafting and getattr(args, name) is not None:
            raise BenchError(
                f"--{name.replace('_', '-')}: is for gad and gad++, and neither is measured"
            )
    if ("iad" in strategies) != (args.mean_copied is not None):
        raise BenchError(
            "--mean-copied: the iad row needs it, and no other does; give both or neither"
        )


def _acceptance(args: argparse.Namespace, strategy: str) -> Tuple[List[float], str]:
    """Weights of the sizes of a strategy's iterations from 1, and their origin in words."""
    if strategy == "greedy":
        return [1.0], "nothing is drafted"
    if strategy in BLOCK_ROWS:
        return _block_weights(args)
    weights = accepted_sizes.constant_acceptance(
        args.length, args.mean_copied, args.length, "--mean-copied"
    )
    return (
        weights,
        f"every copied token right alike, {args.mean_copied:g} tokens an iteration asked",
    )


def read(words: Sequence[str]) -> Asked:
    """Parse and check a command line; nothing is built.

    Raises:
        BenchError: naming the flag.
    """
    args = get_parser().parse_args(list(words))
    _check(args)
    if args.peers:
        peers.check(Plan("", ("",), {}))
    size = paper_sizes.SIZES[args.replay]
    strategies = _strategies(args, size)
    _check_rows(args, strategies, size)
    weights, shapes = {}, {}
    for name in strategies:
        weights[name], shapes[name] = _acceptance(args, name)
    return Asked(args, size, strategies, weights, shapes)
