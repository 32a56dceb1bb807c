"""The command line of ``specdec-bench``: read, checked, turned into systems."""

from __future__ import annotations

import argparse
import os
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

import fairseq_specdec.tasks  # noqa: F401  (registers the task whose flags are ours)

from . import outputs, peers, plots
from .systems import GENERATION, Plan, build, build_stock, make_plans
from .timing import System
from .workload import BenchError, Workload, split_paths

TASK = "translation_specdec"


def get_parser() -> argparse.ArgumentParser:
    """fairseq-generate's flags and this command's own."""
    parser: argparse.ArgumentParser = options.get_generation_parser(default_task=TASK)
    parser.set_defaults(gen_subset="test", batch_size=None)
    parser.description = (
        "Decode the same sentences with stock fairseq and with other systems in turn, and compare "
        "speed and output."
    )
    # Here --batch-size is a list; the other flags of the group are new.
    group = parser.add_argument_group("Benchmark", conflict_handler="resolve")
    group.add_argument(
        "--system",
        action="append",
        default=[],
        metavar="'NAME: FLAGS'",
        help="a row: its name, then decoding flags as for fairseq-generate, --path of a verifier "
        "of its own among them; flags outside --system hold for every row; may be repeated "
        "(default: no row beside stock)",
    )
    group.add_argument(
        "--sweep",
        action="append",
        default=[],
        metavar="[NAME:]FLAG=V,V",
        help="a row for each value of a system's flag, crossed with its other --sweep; NAME may "
        "be left out where there is one system; may be repeated (default: nothing is swept)",
    )
    group.add_argument(
        "--batch-size",
        "--max-sentences",
        dest="batch_sizes",
        default="1",
        metavar="N[,N]",
        help="sentences at a time, 1 or more; several numbers give a table each (default: 1)",
    )
    group.add_argument(
        "--stock-beams",
        default="5,1",
        metavar="N[,N]",
        help="widths of stock beam search, 5 and 1 among them (default: 5,1)",
    )
    group.add_argument(
        "--limit",
        type=int,
        metavar="N",
        help="decode N sentences, 1 or more, spread over all lengths (default: all)",
    )
    group.add_argument(
        "--repeats",
        type=int,
        default=1,
        metavar="R",
        help="passes over the sentences, 1 or more; a batch's time is the median of its passes "
        "(default: 1)",
    )
    group.add_argument(
        "--warmup",
        type=int,
        default=3,
        metavar="N",
        help="batches that every system decodes beforehand, not counted; 0 or more (default: 3)",
    )
    group.add_argument(
        "--threads", type=int, metavar="T", help=f"CPU threads, 1 or more ({peers.THREADS})"
    )
    group.add_argument(
        "--no-memory",
        action="store_true",
        help="do not measure memory, for which each system is loaded in a process of its own "
        "(default: off)",
    )
    group.add_argument(
        "--peers",
        action="store_true",
        help="also measure other engines on the same checkpoint, each in a process of its own: "
        "CTranslate2 (float32 and int8, beam 5 and 1; with --fp16 float16 and int8_float16) and "
        "transformers (beam 5 and 1, prompt lookup); needs the extra peers (default: off)",
    )
    group.add_argument(
        "--peer-engines",
        metavar="NAME[,NAME]",
        help="which of ctranslate2 and transformers --peers measures (default: those installed)",
    )
    group.add_argument(
        "--no-energy",
        action="store_true",
        help="do not measure energy, for which each system decodes all sentences once more "
        "(default: off)",
    )
    group.add_argument("--json", metavar="FILE", help="write all figures here (default: do not)")
    group.add_argument(
        "--by-sentence",
        action="store_true",
        help="--json also holds tokens, iterations and what BLEU counts of every sentence, for "
        "intervals and paired tests (default: off)",
    )
    group.add_argument(
        "--resume",
        action="store_true",
        help="go on with a run that was stopped: batch sizes that --json holds are not measured "
        "again (default: off)",
    )
    group.add_argument("--markdown", metavar="FILE", help="write the tables here (default: do not)")
    group.add_argument(
        "--plots",
        metavar="FOLDER",
        help="write pictures (PNG) here; needs the extra plots (default: do not)",
    )
    group.add_argument(
        "--html",
        metavar="FILE",
        help="write tables and pictures as one self-contained page; needs the extra plots "
        "(default: do not)",
    )
    return parser


def _numbers(text: str, flag: str) -> List[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = [0]
    if min(numbers) < 1 or len(set(numbers)) < len(numbers):
        raise BenchError(f"{flag} {text}: expected different whole numbers from 1, as in 1,8,32")
    return numbers


def _check(args: argparse.Namespace) -> None:
    for name, least in (("limit", 1), ("repeats", 1), ("warmup", 0), ("threads", 1)):
        value = getattr(args, name)
        if value is not None and value < least:
            raise BenchError(f"--{name} {value}: expected {least} or more")
    if args.task != TASK:
        raise BenchError(f"--task {args.task}: only {TASK} has the strategies; leave it out")
    if args.sampling:
        raise BenchError("--sampling: stock beam search does not sample; give it to a --system")
    if args.beam not in (1, 5):
        raise BenchError(f"--beam {args.beam}: use --stock-beams {args.beam},5,1")
    for name in ("max_tokens", "constraints", "lm_path", "replace_unk", "score_reference"):
        if getattr(args, name, None):
            flag = "--" + name.replace("_", "-")
            raise BenchError(f"{flag}: has no meaning here; leave it out")
    outputs.check(args)
    if args.by_sentence and not args.json:
        raise BenchError("--by-sentence: goes into what --json writes; give it too")
    if args.resume and not args.json:
        raise BenchError("--resume: goes on from what --json holds; give it too")
    if args.trace_path is not None:
        raise BenchError(
            "--trace-path: a trace takes time, which would be measured; use fairseq-generate for it"
        )
    for flag in ("plots", "html"):
        if getattr(args, flag):
            plots.require("--" + flag)
    if not os.path.isdir(args.data or ""):
        raise BenchError(
            f"{args.data}: is no directory; name one directory written by fairseq-preprocess"
        )


class Session(NamedTuple):
    """What the command line asks for; nothing is loaded yet.

    Attributes:
        args: as parsed.
        config: fairseq's configuration.
        sizes: batch sizes.
        beams: widths of stock beam search.
        main: stock decoding of ``--path``.
        plans: the systems asked for.
        engines: of ``--peers``.
    """

    args: argparse.Namespace
    config: Any
    sizes: List[int]
    beams: List[int]
    main: Plan
    plans: List[Plan]
    engines: List[str]

    def workload(self, paths: Optional[Tuple[str, ...]] = None) -> Workload:
        """Load data and models (of ``--path`` unless others are named) and set the threads."""
        peers.set_threads(self.args)
        return Workload(self.config, self.args.limit, paths or self.main.paths)

    def makers(self) -> List[Any]:
        """A (plan, function) for every row; the function makes its system for a workload."""

        def of_stock(beam: int) -> Any:
            return lambda workload: build_stock(self.main, workload, beam)

        def of_plan(plan: Plan) -> Any:
            return lambda workload: build(plan, workload)

        rows: List[Any] = [(self.main, of_stock(beam)) for beam in self.beams]
        rows += peers.makers(self.main, self.config.common.fp16, self.engines)
        return rows + [(plan, of_plan(plan)) for plan in self.plans]

    def systems(self, workload: Workload) -> List[System]:
        """Every row's system, stock first."""
        return [make(workload) for _, make in self.makers()]


def read(words: Sequence[str]) -> Session:
    """Parse and check a command line; no model is loaded.

    Raises:
        BenchError: naming the flag or the system.
    """
    args = options.parse_args_and_arch(get_parser(), input_args=list(words))
    _check(args)
    sizes = _numbers(args.batch_sizes, "--batch-size")
    beams = _numbers(args.stock_beams, "--stock-beams")
    if not {1, 5} <= set(beams):
        raise BenchError(f"--stock-beams {args.stock_beams}: 5 and 1 must be among them")
    paths = split_paths(args.path)
    generation = {name: getattr(args, name) for name in GENERATION if hasattr(args, name)}
    main = Plan("fairseq", (), {}, dict(generation, beam=1), paths, {}, "fairseq")
    engines = peers.asked(args, main)
    plans = make_plans(args.system, args.sweep, args)
    if args.sweep and not plans:
        raise BenchError("--sweep: there is no --system whose flags could be swept")
    return Session(args, convert_namespace_to_omegaconf(args), sizes, beams, main, plans, engines)
