"""``specdec-accelerate DATA --path VERIFIER --out FOLDER``: make a drafter and measure it.

Checks the inputs, compares this engine with stock fairseq, distils, trains, lists words, learns the
edits of a model that corrects, measures again, and writes FOLDER/drafter.pt, FOLDER/edits.tsv of
such a model, and FOLDER/report.html with the commands to decode with. Stop it at any time: the same
command goes on where it was.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import logging
import os
import signal
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import torch
from fairseq.data import Dictionary, data_utils
from fairseq.tasks.translation import TranslationTask

from fairseq_specdec.errors import UsageError

from ..checkpoints.content import read_state
from ..checkpoints.verifier import placeholders
from ..commands.own import again, brief, command_parser, load_plugin, log_to_stderr, reporting
from ..data.cluster import add_cluster_flags, check_cluster
from ..data.folder import data_named, splits
from ..data.merge import losses
from ..engine.eager.linear import computes_in_bf16
from ..families.own_flags import task_of
from ..families.subwords import marked
from ..hub.described import is_converted
from ..hub.subwords import files_of
from ..io.file_locks import alone
from ..io.flag_values import AT_LEAST_1, Range, add_flag, add_languages, numbers
from . import commands, converted, measuring, report, steps
from .commands import EDITS, Job, further, here
from .raw_text import binarise
from .state import LOCK, State
from .steps import Limits
from .verifier import Fitting, check_checkpoint, check_layers, fit

logger = steps.logger

HOURS = 2.0  # default of --hours where --updates is not given
# Flags that are the same in every run into one folder.
KEPT = (
    "data", "path", "beam", "limit", "trainpref", "validpref", "max_tokens", "lang_pairs",
    "source_lang", "target_lang",
)  # fmt: skip


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "specdec-accelerate",
        "From a verifier's checkpoint and its training data to a drafter, a report "
        "(OUT/report.html) and the command to decode with. Stop it at any time: the same command "
        "goes on.",
    )
    add = functools.partial(add_flag, parser)
    parser.add_argument(
        "data", help="folder that fairseq-preprocess wrote (train and valid), or with --trainpref "
        "the folder that holds the verifier's dict.*.txt, such as specdec-convert hf writes"
    )  # fmt: skip
    add("--path", "the verifier's checkpoint", metavar="FILE",
        otherwise="verifier.pt of a DATA that specdec-convert hf wrote")  # fmt: skip
    add("--out", "where drafter.pt, report.html and everything else is written", metavar="FOLDER",
        required=True)  # fmt: skip
    add_languages(parser)
    add("--lang-pairs", "of a multilingual verifier: pairs that its drafter is trained for and "
        "measured with", metavar="SRC-TGT,...", otherwise="those of its training")  # fmt: skip
    for split in ("train", "valid"):
        add(f"--{split}pref", f"text PREFIX.SOURCE, or parallel with PREFIX.TARGET, for {split}, "
            "in the verifier's subwords (of a model that specdec-convert hf wrote plain, sources "
            "alone); --trainpref and --validpref together", metavar="PREFIX",
            otherwise="DATA is binarised")  # fmt: skip
    add("--hours", "time for everything", Range(0, above=True), metavar="H",
        otherwise=f"{HOURS:g}, or as --updates needs")  # fmt: skip
    add("--updates", "train for so many updates", AT_LEAST_1, otherwise="as --hours allows")
    add("--accepted", "end training at so many tokens per iteration on validation sentences",
        Range(1, above=True), metavar="TOK")  # fmt: skip
    add("--limit", "distil at most so many sentences", AT_LEAST_1,
        otherwise="as --hours allows, with --updates all")  # fmt: skip
    add("--beam", "beam of the distillation; 1 is what gad decodes", AT_LEAST_1, 1)
    add("--max-tokens", "tokens of a training batch", AT_LEAST_1,
        otherwise="1800 on a CPU, 8192 on a GPU")  # fmt: skip
    add("--eval-sentences", "validation sentences that judge the training", AT_LEAST_1, 100)
    add("--measure-sentences", "validation sentences that are measured in the end", AT_LEAST_1, 100)
    add("--decode-beam", "beam that the model is used with; measured besides 1", AT_LEAST_1, 5,
        "5, as fairseq-generate's")  # fmt: skip
    add("--batch-sizes", "sentences at a time that the model is used with, each 1 or more; all are "
        "measured", default="1,8", metavar="N[,N]")  # fmt: skip
    add("--threads", "CPU threads", AT_LEAST_1, 1)
    add("--cpu", "use no GPU", default=False, otherwise="use it where there is one")
    add_cluster_flags(parser)
    return parser


def check(args: argparse.Namespace) -> None:
    """Refuse flags that contradict one another; set ``hours``, and ``batch_sizes`` as numbers."""
    check_cluster(args)
    if args.hours is not None and args.updates is not None:
        raise UsageError("--hours and --updates", "choose one of them")
    if (args.trainpref is None) != (args.validpref is None):
        raise UsageError("--trainpref and --validpref", "give both, or DATA that is binarised")
    named = args.lang_pairs or (args.source_lang and args.target_lang)
    if args.trainpref is not None and not named:
        raise UsageError("--trainpref", "name the languages with --source-lang and --target-lang")
    if args.hours is None and args.updates is None:
        args.hours = HOURS
    args.batch_sizes = numbers(args.batch_sizes, "--batch-sizes")


def _dictionaries(job: Job) -> Sequence[Any]:
    if job.task:  # fairseq adds language tokens to them
        return placeholders(read_state("--path", job.path)["model"])
    files = [os.path.join(job.data, f"dict.{side}.txt") for side in (job.source, job.target)]
    return [TranslationTask.load_dictionary(file) for file in files]


def _check_data(args: argparse.Namespace, pairs: Sequence[str]) -> None:
    """Refuse DATA that were not binarised, or lack a pair."""
    if is_converted(args.data):
        remedy = "name plain text of the source language"
        raise UsageError("--trainpref and --validpref", "missing", remedy)
    if not pairs:
        with data_named(args.data):
            TranslationTask.setup_task(Namespace(**vars(args)))
    for pair in pairs or ["*-*"]:
        missing = sorted({"train", "valid"} - set(splits(args.data, pair)))
        if missing:
            problem = f"has no split {missing[0]}{f' of {pair}' if pairs else ''}"
            remedy = "name pairs that DATA have with --lang-pairs; " if pairs else ""
            remedy += "a drafter is trained on train and judged on valid: binarise both with "
            remedy += "fairseq-preprocess --trainpref and --validpref"
            raise UsageError(args.data, problem, remedy)


def _subwords(args: argparse.Namespace, languages: tuple[str, str]) -> dict[str, Any]:
    """``subwords`` and ``codes`` of the job, by the dictionary of the target."""
    file = os.path.join(args.data, f"dict.{languages[1]}.txt")
    marks = marked(Dictionary.load(file).symbols) if os.path.isfile(file) else None
    if marks is None:
        return {}
    files = files_of(marks[0], [args.data, os.path.dirname(os.path.abspath(args.path))], languages)
    return {"subwords": marks[0], "codes": here(files[0]) if len(files) == 1 else None}


def prepare(args: argparse.Namespace) -> tuple[Job, State]:
    """Check what can be checked at once; raw text is binarised."""
    descriptions = converted.settle(args)
    check(args)
    verifier = check_checkpoint(args.path)
    both = args.source_lang is not None and args.target_lang is not None
    asked = f"{args.source_lang}-{args.target_lang}" if both else None
    task, pairs = task_of(verifier, args.lang_pairs, asked)
    if args.trainpref is None:
        _check_data(args, pairs)
    elif pairs and not descriptions:
        raise UsageError("--trainpref", "binarise the text of all pairs with fairseq-preprocess")
    source, target = args.source_lang, args.target_lang
    if pairs:
        source, target = pairs[0].split("-")
    elif not both:
        source, target = data_utils.infer_language_pair(args.data)
    cpu, out = args.cpu or not torch.cuda.is_available(), here(args.out)
    data = here(args.data) if args.trainpref is None else os.path.join(out, "binarised")
    if descriptions:
        found = descriptions[0]
        flags = found.command_flags
        of_text: dict[str, Any] = {"converted": found.folder, "generation": flags}
        of_text["text"] = args.validpref
    else:
        of_text = _subwords(args, (source, target))
    job = Job(
        data, here(args.path), out, source, target, args.beam, cpu, cpu and computes_in_bf16(),
        args.max_tokens or (1800 if cpu else 8192), args.threads, args.eval_sentences,
        args.decode_beam, args.batch_sizes, args.ray, args.ray_workers, tuple(task), tuple(pairs),
        **of_text,
    )  # fmt: skip
    state = State(args.out, {name: getattr(args, name) for name in KEPT})
    if args.trainpref is not None and not state.done("binarise"):
        binarise(job, args, descriptions)
        state.note("binarise")
    return job, state


def main(args: argparse.Namespace) -> Job:
    """Do the steps that are not done. One process at a time works in a folder."""
    os.makedirs(args.out, exist_ok=True)
    try:
        with alone(os.path.join(args.out, LOCK), f"--out: {args.out}"):
            return _steps(args)
    finally:
        with contextlib.suppress(OSError):  # unless it is empty
            os.rmdir(args.out)


def _steps(args: argparse.Namespace) -> Job:
    job, state = prepare(args)
    source, target = _dictionaries(job)
    one = not job.task and source.symbols == target.symbols
    job = job._replace(one_dictionary=one)
    fitting = fit(job.path, source, target, languages=bool(job.task))
    logger.info("check: the verifier is sound; its drafter: %s", fitting.description)
    compared = state.results("compare")
    if [compared.get("done"), compared.get("beams")] != [True, job.beams]:
        logger.info("compare: this engine with stock fairseq, without a drafter")
        measuring.compare(job, state)
    job = job._replace(ways=measuring.worthwhile(job, state))
    logger.info("compare: %s", report.without_drafter(job, state))
    try:
        _make_and_measure(args, job, state, fitting)
    except UsageError as error:
        report.write_refusal(job, state, str(error))
        remedy = f"{job.file('report.html')} has figures and commands without a drafter"
        raise UsageError("", error, remedy) from error
    if job.converted is not None:
        job = job._replace(placed=converted.place(job, state))
    recommended = measuring.recommend(job, state)
    if job.placed is not None:
        converted.note_fastest(job, recommended)
    fastest = {best.pair: best.way for best in reversed(recommended)}
    more = further(job, {pair: fastest[pair] for pair in job.all_pairs})
    report.write(job, state, fitting, more)
    logger.info("%s", report.verdict(job, state))
    logger.info("report: %s", job.file("report.html"))
    for best in recommended:
        logger.info("%s: decode with: %s", best.use, best.command(job))
    for use, command in more:
        logger.info("%s with: %s", use, command)
    return job


def _make_and_measure(args: argparse.Namespace, job: Job, state: State, fitting: Fitting) -> None:
    """The drafter, the edits of a model that corrects, and the figures."""
    check_layers(job.path, fitting)
    limits = Limits(args.hours, args.updates, args.accepted, args.limit)
    limits = measuring.leave_time(job, state, limits, args.measure_sentences)
    if not state.done("distil"):
        logger.info("distil: the verifier rewrites the training targets")
        steps.distil(job, state, limits, fitting)
    counts = state.results("distil")["counts"]
    logger.info(
        "distil: %d sentence pairs kept of %d, %s", counts["kept"], counts["chosen"], losses(counts)
    )
    if not state.done("train") or _asks_for_more(limits, state):
        steps.train(job, state, limits, fitting)
        state.note("shortlist", done=False)
    if not state.done("shortlist"):
        logger.info("shortlist: the likely translations of each source word")
        seconds = steps.run(job, commands.shortlist(job), "shortlist.log")
        state.note("shortlist", seconds=seconds)
        state.note("measure", done=False)
    if EDITS in job.ways and not state.done("edits"):
        logger.info("edits: those that the verifier nearly always makes")
        state.note("edits", seconds=steps.run(job, commands.edits(job), "edits.log"))
    measured = state.results("measure")
    uses = [measured.get(name) for name in ("done", "beams", "sizes")]
    if uses != [True, job.beams, list(job.batch_sizes)]:
        measuring.measure(job, state, limits, args.measure_sentences)


def _asks_for_more(limits: Limits, state: State) -> bool:
    """Whether a longer training is asked for than the one that is complete."""
    trained = state.results("train")
    if limits.updates is not None:
        return bool(limits.updates > trained["updates"])
    spent = trained["seconds"] + steps.spent_distilling(state)
    pace = trained["seconds"] / trained["updates"]
    more = limits.hours is not None and limits.hours * 3600 > spent + 100 * pace
    return bool(trained["why"] == steps.TIME_OVER and more)


def cli_main(arguments: Sequence[str] | None = None) -> None:
    load_plugin()
    log_to_stderr("%(asctime)s %(message)s", logging.WARNING, "%H:%M")
    logger.setLevel(logging.INFO)

    def saved(words: Sequence[str]) -> str:
        kept = "finished steps and training's last checkpoint are kept; go on with"
        return f"{kept}: {again('specdec-accelerate', words)}"

    # Whoever ends the program ends its steps too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with reporting("specdec-accelerate", arguments, saved) as words:
        main(brief(get_parser()).parse_args(words))


if __name__ == "__main__":
    cli_main()
