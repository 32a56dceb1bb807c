"""The command line of ``specdec-bench``: read, checked, turned into systems."""

from __future__ import annotations

import argparse
import functools
import glob
import os
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks import TASK_REGISTRY
from omegaconf import DictConfig

import fairseq_specdec.tasks  # noqa: F401  (registers the task whose flags are ours)
from fairseq_specdec.engine.backend import set_threads
from fairseq_specdec.errors import UsageError

from ..checkpoints.content import read_state
from ..checkpoints.reading import weights_mapped
from ..commands.own import brief
from ..commands.words import words_of
from ..families.languages import check_direction, check_languages
from ..families.own_flags import task_of as flags_of_task
from ..families.subwords import FLAGS
from ..hub.cli import model_named
from ..hub.converted import codec_of, describe, is_converted
from ..hub.lines import lines_of
from ..hub.loading import Loaded, find, task_of
from ..hub.text import TextCodec, choose_codec
from ..io.atomic import check_new_file
from ..io.flag_values import AT_LEAST_0, AT_LEAST_1, add_flag, flag_of, numbers
from .systems import Plan, build_stock, given, make_plans, with_greedy
from .workload import Workload, refuse, split_paths

TASK = "translation_specdec"
# fairseq's flags that mean nothing here.
MEANINGLESS = ("max_tokens", "constraints", "lm_path", "replace_unk", "score_reference")


def get_parser() -> argparse.ArgumentParser:
    """fairseq-generate's flags and this command's own."""
    parser: argparse.ArgumentParser = options.get_generation_parser(default_task=TASK)
    parser.set_defaults(gen_subset="test", batch_size=None, beam=1)
    parser.prog = "specdec-bench"
    parser.description = (
        "Decode the same sentences with stock fairseq and with other systems in turn, and compare "
        "speed and output. DATA is a folder of fairseq-preprocess, with --path; or a model: a demo "
        "pair, a checkpoint, several joined by a colon, or a folder with verifier.pt in it."
    )
    # Here --batch-size is a list; the other flags of the group are new.
    group = parser.add_argument_group("Benchmark", conflict_handler="resolve")
    add = functools.partial(add_flag, group)
    # fmt: off
    files: dict[str, Any] = {"metavar": "FILE", "otherwise": "do not"}
    add("--batch-size --max-sentences", "sentences at a time, 1 or more; several numbers give a "
        "table each", dest="batch_sizes", default="1", metavar="N[,N]")
    add("--text", "decode plain text instead of a split: the sentences of this file, one per line; "
        "- for standard input", metavar="FILE", otherwise="a split of binarised DATA")
    add("--system", "a row: its name, then decoding flags as for fairseq-generate, --path of a "
        "verifier of its own among them; flags outside --system hold for every row; may be "
        "repeated", action="append", default=[], metavar="'NAME: FLAGS'",
        otherwise="no row beside stock, or with a model gad where it has a drafter, else greedy")
    add("--sweep", "a row for each value of a system's flag, crossed with its other --sweep; NAME "
        "may be left out where there is one system; may be repeated", action="append", default=[],
        metavar="[NAME:]FLAG=V,V", otherwise="nothing is swept")
    add("--limit", "decode N sentences, spread over all lengths", AT_LEAST_1, otherwise="all")
    add("--threads", "CPU threads of every system", AT_LEAST_1, 1)
    add("--repeats", "passes over the sentences; a batch's time is the median of its passes",
        AT_LEAST_1, 1)
    add("--warmup", "batches that every system decodes first, not counted", AT_LEAST_0, 3)
    add("--json", "write all figures here", **files)
    add("--markdown", "write the tables here", **files)
    add("--by-sentence", "--json also holds tokens, iterations and what BLEU counts of every "
        "sentence, for intervals and paired tests", default=False)
    # fmt: on
    return parser


class Session(NamedTuple):
    """The parsed command line; nothing is loaded yet."""

    arguments: list[str]
    args: argparse.Namespace
    config: DictConfig  # fairseq's configuration
    sizes: list[int]
    stock: dict[int, Plan]  # of --path, by beam: 5, 1 and those of the systems
    plans: list[Plan]  # the systems asked for, after the greedy rows that they are compared with

    def workload(self, paths: tuple[str, ...] | None = None) -> Workload:
        """Load data and models (of ``--path`` unless others are named) and set the threads."""
        set_threads(self.args.threads)
        sources = _sources(self.args) if self.args.text else None
        return Workload(self.config, self.args.limit, paths or self.stock[1].paths, sources)


def read(arguments: Sequence[str]) -> Session:
    """Parse and check a command line; no model is loaded."""
    args = _parsed(arguments)
    if args.path is None or is_converted(args.data):
        args = _of_model(args, arguments)
    _check(args)
    check_languages(args)
    check_direction(args)
    sizes = list(numbers(args.batch_sizes, "--batch-size"))
    main = Plan("fairseq", split_paths(args.path), dict(given(args), beam=1, nbest=1))
    plans = with_greedy(make_plans(args.system, args.sweep, args), args)
    beams = [5, 1, *sorted({plan.generation["beam"] for plan in plans} - {5, 1})]
    stock = {b: main._replace(make=functools.partial(build_stock, beam=b)) for b in beams}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # hydra's, of how fairseq calls it
        config = convert_namespace_to_omegaconf(args)
    return Session(list(arguments), args, config, sizes, stock, plans)


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = brief(get_parser(), "specdec-bench")
    args: argparse.Namespace = options.parse_args_and_arch(parser, input_args=list(arguments))
    args.beside = args.of_model = None  # of MODEL: its drafter, and its name
    return args


def _of_model(args: argparse.Namespace, arguments: Sequence[str]) -> argparse.Namespace:
    """The command line with what a model implies: dictionaries, verifier, drafter, task, languages
    and, of a converted one, settings of decoding. What the command line gives comes first."""
    with model_named(args), weights_mapped():
        place = find(args.data or "", None, None)
        state = read_state("--path", place.verifiers[0])
        asked = (args.source_lang, args.target_lang)
        described = describe(place.verifiers, *asked)
        if described is None:
            cfg = task_of(place.verifiers[0], state, place.data, asked).cfg
            folder, pair, more = cfg.data, (cfg.source_lang, cfg.target_lang), []
        else:
            folder, pair = described.folder, described.languages
            more = words_of(described.command_flags)
        more += flags_of_task(state, None, "-".join(pair))[0]
    more += ["--path", os.pathsep.join(place.verifiers), "-s", pair[0], "-t", pair[1]]
    made = _parsed([*more, *arguments])
    made.data, made.of_model, made.beside = folder, args.data, place.drafter
    strategy = "greedy" if place.drafter is None else "gad"
    made.system = made.system or [f"{strategy}: --strategy {strategy}"]
    return made


def _check(args: argparse.Namespace) -> None:
    """Refuse flags that cannot hold for every row, and files that are not there or cannot be
    written."""
    meaningless = (name for name in MEANINGLESS if getattr(args, name, None))
    refuse({
        f"--task {args.task}: has no strategies; leave it out for {TASK}, or name another task of "
        "this project": not getattr(TASK_REGISTRY[args.task], "decodes_speculatively", False),
        f"--task {args.task}: the sources are speech; decode with fairseq-generate":
            args.task.startswith("speech_to_text"),
        "--sampling: stock beam search does not sample; give it to a --system": args.sampling,
        **{f"{flag_of(each)}: has no meaning here; leave it out": True for each in meaningless},
        "--trace-path: a trace takes time, which would be measured; use fairseq-generate for it":
            args.trace_path is not None,
        "--by-sentence: needs --json; give it too": args.by_sentence and not args.json,
        f"--text {args.text}: no such file":
            args.text not in (None, "-") and not os.path.isfile(args.text),
        f"--text: missing; name plain text, one sentence per line, since {args.of_model} has no "
        "binarised text": args.of_model and not args.text
            and not glob.glob(os.path.join(glob.escape(args.data), f"{args.gen_subset}.*")),
    })  # fmt: skip
    for flag, path in (("--json", args.json), ("--markdown", args.markdown)):
        if path:
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
            check_new_file(path, flag)


def _sources(args: argparse.Namespace) -> list[str]:
    """The sentences of --text, split as fairseq's commands take them; empty lines are left out."""
    paths, asked = list(split_paths(args.path)), (args.source_lang, args.target_lang)
    described = describe(paths, *asked)
    if described is not None:
        codec: TextCodec = codec_of(described)
    else:
        with weights_mapped():
            state = read_state("--path", paths[0])
        loaded = Loaded(task_of(paths[0], state, args.data, asked), [], state.get("cfg"))
        names, file = (args.tokenizer or "auto", args.bpe or "auto"), FLAGS.get(str(args.bpe), "")
        codec = choose_codec(loaded, paths, *names, getattr(args, file, None))
    with lines_of([] if args.text == "-" else [args.text]) as lines:
        texts = [prepared for prepared in map(codec.prepared, lines) if prepared]
    if not texts:
        raise UsageError(f"--text {args.text}", "holds no text", "give one sentence a line")
    return texts
