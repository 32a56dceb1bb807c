"""The command line of ``specdec-bench``: read, checked, turned into systems."""

from __future__ import annotations

import argparse
import functools
import os
import shlex
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks import TASK_REGISTRY

import fairseq_specdec.tasks  # noqa: F401  (registers the task whose flags are ours)
from fairseq_specdec.engine.threads import set_threads
from fairseq_specdec.errors import UsageError

from ..checkpoints.content import read_state
from ..checkpoints.reading import weights_mapped
from ..commands.own import brief
from ..commands.words import words_of
from ..families.languages import check_direction, check_languages
from ..families.own_flags import task_of
from ..hub.command_line import described
from ..hub.converted_text import codec_of
from ..hub.described import VERIFIER, is_converted
from ..io.atomic import check_new_file
from ..io.flag_values import AT_LEAST_0, AT_LEAST_1, add_flag, flag_of, numbers
from .systems import NO_TRACE, Plan, build, build_stock, given, make_plans, with_greedy
from .timing import System
from .workload import Workload, blaming, refuse, split_paths

TASK = "translation_specdec"
# Flags of the demo pairs' tables; {} is the folder.
SHARED = "--path {}/verifier.pt --gen-subset test --tokenizer moses --remove-bpe --cpu "
PLAIN = "--system 'greedy: --strategy greedy' --system 'iad: --strategy iad' "
PRESETS = {
    "demo_ende": "-s en -t de --system 'gad: --strategy gad --drafter-path {}/drafter.pt' "
    "--system 'gad++: --strategy gad++ --top-beta 3 --tau 1.0 --drafter-path {}/drafter.pt'",
    "demo_edit": "-s src -t tgt --system 'iad --edits: --strategy iad --edits {}/edits.tsv'",
}
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
    add = functools.partial(add_flag, group)
    # fmt: off
    files: dict[str, Any] = {"metavar": "FILE", "otherwise": "do not"}
    add("--batch-size --max-sentences", "sentences at a time, 1 or more; several numbers give a "
        "table each", dest="batch_sizes", default="1", metavar="N[,N]")
    add("--text", "decode the sentences of this file, one a line, instead of a split: plain text, "
        "for a DATA that specdec-convert hf wrote; --path and the flags of its task and its "
        "settings are then those of DATA", metavar="FILE", otherwise="a split of binarised DATA")
    add("--system", "a row: its name, then decoding flags as for fairseq-generate, --path of a "
        "verifier of its own among them; flags outside --system hold for every row; may be "
        "repeated", action="append", default=[], metavar="'NAME: FLAGS'",
        otherwise="no row beside stock")
    add("--preset", "systems and flags of a demo pair's table; --path is then DATA/verifier.pt and "
        "the drafter DATA/drafter.pt; other flags add to it", tuple(sorted(PRESETS)),
        otherwise="off")
    add("--sweep", "a row for each value of a system's flag, crossed with its other --sweep; NAME "
        "may be left out where there is one system; may be repeated", action="append", default=[],
        metavar="[NAME:]FLAG=V,V", otherwise="nothing is swept")
    add("--stock-beams", "widths of stock beam search, 5 and 1 among them; those of the systems "
        "are measured too", default="5,1", metavar="N[,N]")
    add("--limit", "decode N sentences, spread over all lengths", AT_LEAST_1, otherwise="all")
    add("--threads", "CPU threads of every system", AT_LEAST_1, 1)
    add("--repeats", "passes over the sentences; a batch's time is the median of its passes",
        AT_LEAST_1, 1)
    add("--warmup", "batches that every system decodes beforehand, not counted", AT_LEAST_0, 3)
    add("--json", "write all figures here", **files)
    add("--markdown", "write the tables here", **files)
    add("--by-sentence", "--json also holds tokens, iterations and what BLEU counts of every "
        "sentence, for intervals and paired tests", default=False)
    add("--resume", "resume a run that was stopped: batch sizes that --json holds are not measured "
        "again", default=False)
    # fmt: on
    return parser


class Session(NamedTuple):
    """What the command line asks for; nothing is loaded yet."""

    words: list[str]
    args: argparse.Namespace
    config: Any  # fairseq's configuration
    sizes: list[int]
    beams: list[int]  # widths of stock beam search
    main: Plan  # stock decoding of ``--path``
    plans: list[Plan]  # the systems asked for, after the greedy rows that they are compared with
    build: Callable[[Plan, Workload], System] = build  # makes the system of a plan

    def workload(self, paths: tuple[str, ...] | None = None) -> Workload:
        """Load data and models (of ``--path`` unless others are named) and set the threads."""
        set_threads(self.args.threads)
        sources = _sources(self.args) if self.args.text else None
        return Workload(self.config, self.args.limit, paths or self.main.paths, sources)

    def makers(self, extra: Sequence[Any] = ()) -> list[Any]:
        """A (plan, function) for every row; the function makes its system for a workload.
        ``extra``: those of other engines, between stock's and this project's."""
        stock = [(self.main, functools.partial(build_stock, self.main, beam=b)) for b in self.beams]
        return [*stock, *extra, *((p, functools.partial(self.build, p)) for p in self.plans)]


def read(words: Sequence[str]) -> Session:
    """Parse and check a command line; no model is loaded."""
    args = _parsed(words)
    if args.preset:  # flags of the command line replace those of the preset
        args = _parsed([*_preset_flags(args.preset, args.data or ""), *words])
    elif is_converted(args.data):
        args = _parsed([*_converted_flags(args), *words])
    _check(args)
    with blaming(""):
        check_languages(args)
        check_direction(args)
        sizes = list(numbers(args.batch_sizes, "--batch-size"))
        beams = list(numbers(args.stock_beams, "--stock-beams"))
    if not {1, 5} <= set(beams):
        raise UsageError(f"--stock-beams {args.stock_beams}", "5 and 1 must be among them")
    main = Plan("fairseq", split_paths(args.path), dict(given(args), beam=1, nbest=1))
    plans = with_greedy(make_plans(args.system, args.sweep, args), args)
    beams += sorted({plan.generation["beam"] for plan in plans} - set(beams))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # hydra's, of how fairseq calls it
        config = convert_namespace_to_omegaconf(args)
    return Session(list(words), args, config, sizes, beams, main, plans)


def _parsed(words: Sequence[str]) -> Any:
    parser = brief(get_parser(), "specdec-bench")
    return options.parse_args_and_arch(parser, input_args=list(words))


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
        NO_TRACE: args.trace_path is not None,
        **{f"--{name}: needs --json; give it too": asked and not args.json for name, asked in
           (("by-sentence", args.by_sentence), ("resume", args.resume))},
        f"--text: missing; name plain text, a sentence a line, since {args.data} has no binarised "
        "text": is_converted(args.data) and not args.text,
        f"--text {args.text}: {args.data} is no folder that specdec-convert hf wrote; binarise the "
        "text with fairseq-preprocess": bool(args.text) and not is_converted(args.data),
        f"--text {args.text}: no such file": bool(args.text) and not os.path.isfile(args.text),
        f"{args.data}: is no directory; name one directory written by fairseq-preprocess":
            not os.path.isdir(args.data or ""),
    })  # fmt: skip
    for flag, path in (("--json", args.json), ("--markdown", args.markdown)):
        if path:
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
            check_new_file(path, flag)


def _preset_flags(name: str, data: str) -> list[str]:
    """The flags of a preset for a folder with verifier.pt, and drafter.pt or edits.tsv."""
    words = shlex.split(SHARED + PLAIN + PRESETS[name])
    # Within the word of a --system the folder is quoted.
    return [word.replace("{}", shlex.quote(data) if " " in word else data) for word in words]


def _converted_flags(args: argparse.Namespace) -> list[str]:
    """Verifier, task, languages and settings of decoding of a folder that ``specdec-convert hf``
    wrote. Raises ValueError: a language that the model lacks, or that nobody names."""
    path = os.path.join(args.data, VERIFIER)
    description = described(path, args.source_lang, args.target_lang)
    with weights_mapped():
        task, _ = task_of(read_state("DATA", path), None, "-".join(description.languages))
    words = ["--path", path, *task, "--source-lang", description.languages[0]]
    return [*words, "--target-lang", description.languages[1], *words_of(description.command_flags)]


def _sources(args: argparse.Namespace) -> list[str]:
    """The sentences of --text, split as fairseq's commands take them; empty lines are left out."""
    path = os.path.join(args.data, VERIFIER)
    codec = codec_of(described(path, args.source_lang, args.target_lang))
    with open(args.text, encoding="utf-8", errors="replace") as lines:
        texts = [prepared for prepared in map(codec.prepared, lines) if prepared]
    if not texts:
        raise UsageError(f"--text {args.text}", "holds no text", "give one sentence a line")
    return texts
