"""The command line of ``specdec-bench``: read, checked, turned into systems."""

import argparse
import functools
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks import TASK_REGISTRY

import fairseq_specdec.tasks  # noqa: F401  (registers the task whose flags are ours)
from fairseq_specdec.engine.threads import set_threads
from fairseq_specdec.errors import UsageError

from ..commands.own import brief
from ..families.languages import check_direction, check_languages
from ..hub.described import is_converted
from ..io.flag_values import AT_LEAST_1, flag_of, numbers
from . import converted, flags, greedy_rows, peers, presets
from .systems import NO_TRACE, Plan, build, build_stock, given, make_plans
from .timing import System
from .workload import Workload, blaming, refuse, split_paths

TASK = "translation_specdec"
FLAGS: flags.Flags = {
    "--batch-size --max-sentences": dict(
        text="sentences at a time, 1 or more; several numbers give a table each",
        dest="batch_sizes", default="1", metavar="N[,N]",
    ),
    "--text": dict(
        text="decode the sentences of this file, one a line, in place of a split: plain text, of a "
        "DATA that specdec-convert hf wrote; --path and the flags of its task and its settings "
        "are then those of DATA", metavar="FILE", otherwise="a split of binarised DATA",
    ),
    "--system": dict(
        action="append", default=[], metavar="'NAME: FLAGS'", otherwise="no row beside stock",
        text="a row: its name, then decoding flags as for fairseq-generate, --path of a verifier "
        "of its own among them; flags outside --system hold for every row; may be repeated",
    ),
    "--preset": dict(
        text="systems and flags of a demo pair's table; --path is then DATA/verifier.pt and the "
        "drafter DATA/drafter.pt; other flags add to it",
        values=tuple(sorted(presets.PRESETS)), otherwise="off",
    ),
    "--sweep": dict(
        action="append", default=[], metavar="[NAME:]FLAG=V,V", otherwise="nothing is swept",
        text="a row for each value of a system's flag, crossed with its other --sweep; NAME may "
        "be left out where there is one system; may be repeated",
    ),
    "--stock-beams": dict(
        default="5,1", metavar="N[,N]",
        text="widths of stock beam search, 5 and 1 among them; those of the systems are measured "
        "too",
    ),
    "--limit": dict(
        text="decode N sentences, spread over all lengths", values=AT_LEAST_1, otherwise="all",
    ),
    "--by-sentence": dict(
        text="--json also holds tokens, iterations and what BLEU counts of every sentence, for "
        "intervals and paired tests", default=False,
    ),
    "--resume": dict(
        text="go on with a run that was stopped: batch sizes that --json holds are not measured "
        "again", default=False,
    ),
}  # fmt: skip
# fairseq's flags that mean nothing here.
MEANINGLESS = ("max_tokens", "constraints", "lm_path", "replace_unk", "score_reference")


def get_parser() -> argparse.ArgumentParser:
    """fairseq-generate's flags and this command's own."""
    parser: argparse.ArgumentParser = options.get_generation_parser(default_task=TASK)
    parser.set_defaults(gen_subset="test", batch_size=None, beam=1)
    parser.prog = "specdec-bench"
    parser.description = (
        "Decode the same sentences with stock fairseq and with other systems in turn, and compare "
        "speed and output."
    )
    # Here --batch-size is a list; the other flags of the group are new.
    group = parser.add_argument_group("Benchmark", conflict_handler="resolve")
    flags.add(group, FLAGS, flags.PASSES, flags.PEERS, flags.FILES)
    return parser


def _check(args: argparse.Namespace) -> None:
    """Refuse flags that cannot hold for every row, and files that are not there."""
    flags.check_common(args)
    meaningless = (name for name in MEANINGLESS if getattr(args, name, None))
    refuse({
        f"--task {args.task}: has no strategies; leave it out for {TASK}, or name another task of "
        "this project": not getattr(TASK_REGISTRY[args.task], "decodes_speculatively", False),
        f"--task {args.task}: the sources are speech; decode with fairseq-generate":
            args.task.startswith("speech_to_text"),
        f"--peers: no other engine has {args.task}; leave it out":
            args.peers and args.task != TASK,
        "--sampling: stock beam search does not sample; give it to a --system": args.sampling,
        **{f"{flag_of(each)}: has no meaning here; leave it out": True for each in meaningless},
        NO_TRACE: args.trace_path is not None,
        "--by-sentence: goes into what --json writes; give it too":
            args.by_sentence and not args.json,
        "--resume: goes on from what --json holds; give it too": args.resume and not args.json,
        f"--text: missing; name plain text, a sentence a line, since {args.data} has no binarised "
        "text": is_converted(args.data) and not args.text,
        f"--text {args.text}: {args.data} is no folder that specdec-convert hf wrote; binarise the "
        "text with fairseq-preprocess": bool(args.text) and not is_converted(args.data),
        f"--text {args.text}: no such file": bool(args.text) and not os.path.isfile(args.text),
        f"{args.data}: is no directory; name one directory written by fairseq-preprocess":
            not os.path.isdir(args.data or ""),
    })  # fmt: skip


class Session(NamedTuple):
    """What the command line asks for; nothing is loaded yet."""

    words: list[str]
    args: argparse.Namespace
    config: Any  # fairseq's configuration
    sizes: list[int]
    beams: list[int]  # widths of stock beam search, and of other engines
    main: Plan  # stock decoding of ``--path``
    plans: list[Plan]  # the systems asked for, after the greedy rows that they are compared with
    build: Callable[[Plan, Workload], System] = build  # makes the system of a plan

    def workload(self, paths: tuple[str, ...] | None = None) -> Workload:
        """Load data and models (of ``--path`` unless others are named) and set the threads."""
        set_threads(self.args.threads)
        sources = converted.sources(self.args) if self.args.text else None
        return Workload(self.config, self.args.limit, paths or self.main.paths, sources)

    def makers(self) -> list[Any]:
        """A (plan, function) for every row; the function makes its system for a workload."""
        rows: list[Any] = [
            (self.main, functools.partial(build_stock, self.main, beam=beam)) for beam in self.beams
        ]
        if self.args.peers:
            names = peers.named(self.args.peers)
            rows += peers.makers(names, self.main, self.config.common.fp16, self.beams)
        return rows + [(plan, functools.partial(self.build, plan)) for plan in self.plans]


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = brief(get_parser(), "specdec-bench")
    args: argparse.Namespace = options.parse_args_and_arch(parser, input_args=list(words))
    return args


def read(words: Sequence[str]) -> Session:
    """Parse and check a command line; no model is loaded."""
    args = _parsed(words)
    if args.preset:  # flags of the command line replace those of the preset
        args = _parsed([*presets.flags_of(args.preset, args.data or ""), *words])
    elif is_converted(args.data):
        args = _parsed([*converted.flags_of(args), *words])
    _check(args)
    with blaming(""):
        check_languages(args)
        check_direction(args)
        sizes = list(numbers(args.batch_sizes, "--batch-size"))
        beams = list(numbers(args.stock_beams, "--stock-beams"))
    if not {1, 5} <= set(beams):
        raise UsageError(f"--stock-beams {args.stock_beams}", "5 and 1 must be among them")
    paths = split_paths(args.path)
    main = Plan("fairseq", paths, dict(given(args), beam=1, nbest=1), base="fairseq")
    if args.peers:
        peers.check(peers.named(args.peers), main)
    plans = make_plans(args.system, args.sweep, args)
    plans = [*greedy_rows.added(plans, args), *plans]
    beams += sorted({plan.generation["beam"] for plan in plans} - set(beams))
    if args.sweep and not plans:
        raise UsageError("--sweep", "there is no --system whose flags could be swept")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # hydra's, of how fairseq calls it
        config = convert_namespace_to_omegaconf(args)
    return Session(list(words), args, config, sizes, beams, main, plans)
