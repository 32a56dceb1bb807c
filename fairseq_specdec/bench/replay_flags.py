"""The command line of ``specdec-bench --replay``: read and checked; nothing is built."""

from __future__ import annotations

import argparse
from typing import Any, Dict, List, NamedTuple, NoReturn, Optional, Sequence

import torch
from fairseq.models import ARCH_MODEL_NAME_REGISTRY

import fairseq_specdec.tasks  # noqa: F401  (registers the drafters' architectures)
from fairseq_specdec.decoding.strategies import DRAFTER_DTYPES

from . import accepted_sizes, outputs, paper_sizes, peers, plots
from .replay import NOTICE
from .systems import Plan
from .workload import BenchError

BLOCK_ROWS = ("gad", "gad++")
STRATEGY_ROWS = ("greedy", *BLOCK_ROWS, "iad")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BenchError(f"--replay: {message}")


def get_parser() -> argparse.ArgumentParser:
    """The command's flags."""
    parser = _Parser(prog="specdec-bench", description=NOTICE, allow_abbrev=False)
    add = parser.add_argument
    add(
        "--replay",
        required=True,
        choices=paper_sizes.SIZES,
        metavar="SIZE",
        help="required; "
        + "; ".join(f"{name}: {size.title}" for name, size in paper_sizes.SIZES.items()),
    )
    add(
        "--strategies",
        metavar="NAME[,NAME]",
        help="rows beside stock: greedy, gad, gad++, iad (default: greedy, gad and gad++ where "
        "the size has a drafter, iad where --mean-copied is given)",
    )
    add(
        "--block-size",
        type=int,
        default=25,
        help="k, tokens drafted at once, 1 or more (default: 25)",
    )
    add(
        "--mean-accepted",
        type=float,
        metavar="TOK",
        help="tokens an iteration of gad and gad++ emits on average, from 1 to k+1, the "
        "verifier's own included (Tok. in the papers: 8.23 in Xia et al. 2023, Table 2); sizes are "
        "drawn as if every draft token were right with one probability, unless another flag gives "
        "their distribution; one of the three is required by these rows (default: none)",
    )
    add(
        "--accepted",
        metavar="TOKENS=WEIGHT,...",
        help="the distribution of the tokens an iteration emits, from 1 to k+1, as in 1=2,9=5; "
        "tilted to --mean-accepted if that is given too (default: none)",
    )
    add(
        "--accepted-from",
        metavar="TRACE",
        help="take the distribution from a trace of --trace-path, tilted to --mean-accepted, by "
        "default to the trace's own mean",
    )
    add(
        "--mean-copied",
        type=float,
        metavar="TOK",
        help="tokens an iteration of iad emits on average, from 1 to --length; required by "
        "that row (default: none)",
    )
    add("--drafter-arch", metavar="ARCH", help="of the drafter (default: the paper's)")
    add(
        "--drafter-dtype",
        default="same",
        help="as for decoding: same (the default), fp32, fp16 or bf16",
    )
    add(
        "--bidirectional-prefix",
        action="store_true",
        help="let the drafter's prefix see the block, as in the papers: nothing of it is cached "
        "(default: off)",
    )
    add("--vocabulary", type=int, default=32000, help="tokens, 16 or more (default: 32000)")
    add("--sentences", type=int, default=8, help="how many are decoded, 1 or more (default: 8)")
    add(
        "--length",
        type=int,
        default=27,
        help="tokens of each, </s> included, from 2 to 200 (default: 27)",
    )
    add("--batch-size", type=int, default=1, help="sentences at a time, 1 or more (default: 1)")
    add(
        "--repeats",
        type=int,
        default=3,
        help="passes, 1 or more; a batch's time is the median (default: 3)",
    )
    add("--warmup", type=int, default=1, help="batches decoded beforehand, 0 or more (default: 1)")
    add("--seed", type=int, default=1, help="of weights, sentences and sizes (default: 1)")
    add("--threads", type=int, help=f"CPU threads, 1 or more ({peers.THREADS})")
    add("--cpu", action="store_true", help="stay off the GPU (default: off)")
    add("--fp16", action="store_true", help="half precision, on a GPU (default: off)")
    add(
        "--peers",
        action="store_true",
        help="also measure other engines on the same random verifier; needs the extra peers "
        "(default: off)",
    )
    add(
        "--peer-engines",
        metavar="NAME[,NAME]",
        help="which of ctranslate2 and transformers --peers measures (default: those installed)",
    )
    add(
        "--no-memory",
        action="store_true",
        help="do not measure memory, for which each system is built in a process of its own "
        "(default: off)",
    )
    add("--no-energy", action="store_true", help="do not measure energy (default: off)")
    add("--json", metavar="FILE", help="write all figures here (default: do not)")
    add("--markdown", metavar="FILE", help="write the tables here (default: do not)")
    add(
        "--plots",
        metavar="FOLDER",
        help="write pictures here; needs the extra plots (default: do not)",
    )
    add(
        "--html",
        metavar="FILE",
        help="write one self-contained page; needs the extra plots (default: do not)",
    )
    return parser


class Asked(NamedTuple):
    """The command line, checked.

    Attributes:
        args: as parsed.
        size: of the models.
        arch: of the drafter, or None.
        strategies: rows beside stock.
        weights: for every strategy, of the sizes of its iterations from 1.
        shapes: where each came from, in words.
        engines: of ``--peers``.
    """

    args: argparse.Namespace
    size: paper_sizes.Size
    arch: Optional[str]
    strategies: List[str]
    weights: Dict[str, List[float]]
    shapes: Dict[str, str]
    engines: List[str]

    @property
    def cuda(self) -> bool:
        """Whether a GPU does the work."""
        return torch.cuda.is_available() and not self.args.cpu


def _strategies(args: argparse.Namespace, arch: Optional[str]) -> List[str]:
    if args.strategies is None:
        copied = ["iad"] if args.mean_copied is not None else []
        return ["greedy", *(BLOCK_ROWS if arch else ()), *copied]
    names: List[str] = args.strategies.split(",")
    for name in names:
        if name not in STRATEGY_ROWS or names.count(name) > 1:
            raise BenchError(
                f"--strategies {args.strategies}: choose different ones of "
                f"{', '.join(STRATEGY_ROWS)}"
            )
    return names


def _block_weights(args: argparse.Namespace) -> Any:
    """Weights of the sizes of a block drafter's iterations, and their origin in words."""
    largest = min(args.block_size + 1, args.length)
    mean, flag = args.mean_accepted, "--mean-accepted"
    if args.accepted is not None and args.accepted_from is not None:
        raise BenchError("--accepted and --accepted-from: choose one of them")
    if args.accepted is not None:
        weights = accepted_sizes.parse(args.accepted, args.block_size + 1, "--accepted")
        origin = f"given: {args.accepted}"
    elif args.accepted_from is not None:
        flag_from = "--accepted-from"
        weights = accepted_sizes.recorded(args.accepted_from, args.block_size + 1, flag_from)
        origin = f"recorded: {args.accepted_from}"
        if mean is None:
            mean, flag = accepted_sizes.mean_size(weights), f"{flag_from}: mean"
    elif mean is not None:
        weights = accepted_sizes.constant_acceptance(largest, mean, args.length, flag)
        return weights, f"every draft token right alike, {mean:g} tokens an iteration asked"
    else:
        raise BenchError(
            "--mean-accepted: gad and gad++ need it, or --accepted or --accepted-from; 8.23 is "
            "what Xia et al. 2023, Table 2 has for a block size of 25"
        )
    if mean is not None:
        weights = accepted_sizes.tilted_to(weights, mean, args.length, flag)
        origin += f"; tilted to {mean:g} tokens an iteration"
    return weights, origin


def _drafter_arch(args: argparse.Namespace, size: paper_sizes.Size) -> Optional[str]:
    known = [arch for arch, name in ARCH_MODEL_NAME_REGISTRY.items() if name == "spec_drafter"]
    if args.drafter_arch is not None and args.drafter_arch not in known:
        raise BenchError(f"--drafter-arch {args.drafter_arch}: choose one of {', '.join(known)}")
    return args.drafter_arch or size.drafter


def read(words: Sequence[str]) -> Asked:
    """Parse and check a command line; nothing is built.

    Raises:
        BenchError: naming the flag.
    """
    args = get_parser().parse_args(list(words))
    least = {"block_size": 1, "vocabulary": 16, "sentences": 1, "length": 2, "batch_size": 1}
    for name, lowest in dict(least, repeats=1, warmup=0, threads=1).items():
        value = getattr(args, name)
        if value is not None and value < lowest:
            flag = "--" + name.replace("_", "-")
            raise BenchError(f"{flag} {value}: expected {lowest} or more")
    outputs.check(args)
    if args.length > 200:
        raise BenchError(f"--length {args.length}: at most 200, fairseq's default limit")
    if args.drafter_dtype not in DRAFTER_DTYPES:
        raise BenchError(
            f"--drafter-dtype {args.drafter_dtype}: choose one of {', '.join(DRAFTER_DTYPES)}"
        )
    if args.fp16 and (args.cpu or not torch.cuda.is_available()):
        raise BenchError("--fp16: needs a GPU; leave it out")
    for name in ("plots", "html"):
        if getattr(args, name):
            plots.require("--" + name)
    engines = peers.asked(args, Plan("", (), {}, {}, ("",), {}, ""))
    size = paper_sizes.SIZES[args.replay]
    arch = _drafter_arch(args, size)
    strategies = _strategies(args, arch)
    weights, shapes = {"greedy": [1.0]}, {"greedy": "nothing is drafted"}
    drafting = [name for name in strategies if name in BLOCK_ROWS]
    if drafting and arch is None:
        raise BenchError(
            f"--strategies {drafting[0]}: the paper has no drafter for {args.replay}; name one "
            "with --drafter-arch"
        )
    for name in ("mean_accepted", "accepted", "accepted_from"):
        if not drafting and getattr(args, name) is not None:
            raise BenchError(
                f"--{name.replace('_', '-')}: is for gad and gad++, and neither is measured"
            )
    for name in drafting:
        weights[name], shapes[name] = _block_weights(args)
    if ("iad" in strategies) != (args.mean_copied is not None):
        raise BenchError(
            "--mean-copied: the iad row needs it, and no other does; give both or neither"
        )
    if args.mean_copied is not None:
        weights["iad"] = accepted_sizes.constant_acceptance(
            args.length, args.mean_copied, args.length, "--mean-copied"
        )
        shapes["iad"] = (
            f"every copied token right alike, {args.mean_copied:g} tokens an iteration asked"
        )
    return Asked(args, size, arch, strategies, weights, shapes, engines)
