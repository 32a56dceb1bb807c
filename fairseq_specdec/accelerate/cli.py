"""``specdec-accelerate DATA --path VERIFIER --out FOLDER``: make a drafter and measure it.

Checks the inputs, compares this engine with stock fairseq, distils, trains, lists words, learns the
edits of a model that corrects, measures again, and writes FOLDER/drafter.pt, FOLDER/edits.tsv of
such a model, and FOLDER/report.html with the commands to decode with. Stop it at any time: the same
command goes on where it was.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import torch
from fairseq.data import Dictionary, data_utils
from fairseq.tasks.translation import TranslationTask

import fairseq_specdec.tasks  # noqa: F401  (the plugin)
from fairseq_specdec.errors import UsageError

from ..checkpoints.content import read_state
from ..checkpoints.verifier import placeholders
from ..commands.own import again, brief, reporting
from ..data.folder import check_data, splits
from ..data.merge import losses
from ..engine.eager.linear import computes_in_bf16
from ..families.own_flags import task_of
from ..hub.described import is_converted
from ..hub.subwords import files_of, marked
from ..io.file_locks import alone
from . import converted, measuring, report, steps
from .commands import WAYS, Job
from .flags import check, get_parser
from .measuring import recommend
from .raw_text import binarise
from .state import LOCK, State
from .steps import Limits
from .uses import further, here
from .verifier import Fitting, check_checkpoint, check_layers, fit

logger = steps.logger

# Flags that are the same in every run into one folder.
KEPT = (
    "data", "path", "beam", "limit", "trainpref", "validpref", "max_tokens", "lang_pairs",
    "source_lang", "target_lang",
)  # fmt: skip


def _languages(args: argparse.Namespace) -> tuple[str, str]:
    source, target = args.source_lang, args.target_lang
    if source is None or target is None:
        source, target = data_utils.infer_language_pair(args.data)
    return str(source), str(target)


def _dictionaries(job: Job) -> Sequence[Any]:
    if job.task:  # fairseq adds language tokens to them
        return placeholders(read_state("--path", job.path)["model"])
    files = [os.path.join(job.data, f"dict.{side}.txt") for side in (job.source, job.target)]
    return [TranslationTask.load_dictionary(file) for file in files]


def _check_splits(data: str, pair: str = "*-*", remedy: str = "") -> None:
    missing = sorted({"train", "valid"} - set(splits(data, pair)))
    if missing:
        of_pair = f" of {pair}" if remedy else ""
        raise UsageError(
            data,
            f"has no split {missing[0]}{of_pair}",
            f"{remedy}a drafter is trained on train and judged on valid: binarise both with "
            "fairseq-preprocess --trainpref and --validpref",
        )


def _check_data(args: argparse.Namespace, pairs: Sequence[str]) -> None:
    """Refuse DATA that were not binarised, or lack a pair."""
    if is_converted(args.data):
        raise UsageError(
            "--trainpref and --validpref", "missing", "name plain text of the source language"
        )
    for pair in pairs:
        _check_splits(args.data, pair, "name pairs that DATA have with --lang-pairs; ")
    if not pairs:
        check_data(Namespace(**vars(args)))
        _check_splits(args.data)


def _subwords(args: argparse.Namespace, languages: tuple[str, str]) -> dict[str, str | None]:
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
    source, target = pairs[0].split("-") if pairs else _languages(args)
    cpu = args.cpu or not torch.cuda.is_available()
    bf16 = cpu and computes_in_bf16()
    tokens = args.max_tokens or (1800 if cpu else 8192)
    out = here(args.out)
    data = here(args.data) if args.trainpref is None else os.path.join(out, "binarised")
    first = descriptions[0] if descriptions else None
    job = Job(
        data, here(args.path), out, source, target, args.beam, cpu, bf16, tokens, args.threads,
        args.eval_sentences, args.decode_beam, args.batch_sizes,
        args.ray, args.ray_workers, tuple(task), tuple(pairs),
        first.folder if first else None, first.command_flags if first else {},
        text=args.validpref if first else None,
        **({} if first else _subwords(args, (source, target))),
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
    if not measuring.compared(job, state):
        logger.info("compare: this engine with stock fairseq, without a drafter")
        measuring.compare(job, state)
    job = job._replace(ways=measuring.worthwhile(job, state))
    logger.info("compare: %s", report.without_drafter(job, state))
    try:
        _make_and_measure(args, job, state, fitting)
    except ValueError as error:
        report.write_refusal(job, state, str(error))
        raise UsageError(
            "", error, f"{job.file('report.html')} has figures and commands without a drafter"
        ) from error
    if job.converted is not None:
        job = job._replace(placed=converted.place(job, state))
    recommended = recommend(job, state)
    fastest: dict[str, str] = {}
    for best in recommended:
        fastest.setdefault(best.pair, best.way)
    if job.placed is not None:
        converted.note_fastest(job, recommended)
    report.write(job, state, fitting, further(job, fastest))
    logger.info("%s", report.verdict(job, state))
    logger.info("report: %s", job.file("report.html"))
    for best in recommended:
        logger.info("%s: decode with: %s", best.use, best.command(job))
    for use, command in further(job, fastest):
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
        steps.shortlist(job, state)
        state.note("measure", done=False)
    if any(WAYS[way].edits for way in job.ways) and not state.done("edits"):
        logger.info("edits: those that the verifier nearly always makes")
        steps.edits(job, state)
    if not measuring.measured(job, state):
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
    logging.basicConfig(
        format="%(asctime)s %(message)s", datefmt="%H:%M", level=logging.WARNING, stream=sys.stderr
    )
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
