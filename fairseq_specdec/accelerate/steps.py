"""The steps that make drafts: distil, train, list words, learn edits. Each is done once; a stopped
one goes on."""

import glob
import logging
import os
import shutil
import subprocess
import time
from typing import Any, NamedTuple

import torch
from fairseq.data import Dictionary, data_utils

from fairseq_specdec.errors import UsageError

from ..checkpoints.reading import load_model
from ..data.merge import losses
from ..io.atomic import read_json, replacing
from . import commands
from .commands import Job
from .files import complaint, progress, sentences_per_second, validations
from .state import State
from .verifier import Fitting

logger = logging.getLogger("fairseq_specdec.accelerate")

PILOT = 256  # sentences whose distillation is timed, at least: they fill about 3 batches
PILOT_UPDATES = 10  # on them, which are timed
FEWEST = 1000  # sentences to distil
DISTILLING = 0.5  # most of the time
FIRST_SLICE = 100  # updates
SLICES = 8  # about how many validations
PATIENCE = 4  # validations without a better one, after which training ends
TELL_EVERY = 60.0  # seconds, of what a long step has done
TIME_OVER = "the time is over"
MOST_LOST = 0.5  # of the pairs; of more the data are not the verifier's
_SPLIT = "split DATA into sentences that the verifier can read"
_OTHER = (
    "DATA seem to be of other subwords, another dictionary or other languages than the verifier's: "
    "binarise text in its subwords with --srcdict and --tgtdict of its training"
)
_LOOPS = (
    "the text fits the verifier's dictionary, so the model loops or is undertrained, or was "
    "trained for other languages: look at what it writes, and train it longer"
)
MOST_UNKNOWN = 0.05  # of the tokens, in text of the verifier's dictionary
REMEDIES = {
    "source_too_long": _SPLIT, "exceeds_max_tokens": _SPLIT,
    "empty_source": "remove empty lines from DATA",
    "no_hypothesis": _OTHER, "empty_target": _OTHER, "length_limit": _OTHER, "length_ratio": _OTHER,
}  # fmt: skip


class Limits(NamedTuple):
    """How long to go on."""

    hours: float | None  # of distilling and training together; None: by ``updates``
    updates: int | None  # of training; None: by ``hours``
    accepted: float | None  # accepted tokens at which training ends
    sentences: int | None  # to distil at most; None: what ``hours`` allows


def run(job: Job, words: list[str], log: str) -> float:
    """Run a command, its output added to a log; its seconds."""
    path = job.file("logs", log)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    began = time.monotonic()
    with open(path, "a", encoding="utf-8") as stream:
        process = subprocess.Popen(
            words, stdout=stream, stderr=subprocess.STDOUT, env=commands.environment(job)
        )
        try:
            status = _ended(process, os.path.splitext(log)[0], path)
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if status:
        raise UsageError(os.path.splitext(log)[0], f"{complaint(path)} (all of it: {path})")
    return time.monotonic() - began


def _ended(process: Any, step: str, path: str) -> int:
    """The exit status of a command; how far its log is is logged meanwhile."""
    before = os.path.getsize(path)
    while True:
        try:
            return int(process.wait(timeout=TELL_EVERY))
        except subprocess.TimeoutExpired:
            line = progress(path, before)
            if line is not None:
                logger.info("%s: %s", step, line)


def distil(job: Job, state: State, limits: Limits, fitting: Fitting) -> None:
    """The verifier's own output becomes the drafter's training targets."""
    limit = state.results("distil").get("limit", limits.sentences)
    if "limit" not in state.results("distil") and limits.hours is not None:
        began = time.monotonic()
        distilled, trained, pairs = rates(job, fitting)
        pilot = time.monotonic() - began
        most = one_epoch(limits.hours * 3600 - pilot, distilled, trained)
        most = max(FEWEST, most // pairs)
        limit = most if limit is None else min(limit, most)
        logger.info(
            "distil: %.0f sentences per second, in training %.0f, so at most %d%s",
            distilled, trained, limit, " of each pair" if pairs > 1 else "",
        )  # fmt: skip
        state.note("distil", done=False, pilot=pilot)
    state.note("distil", done=False, limit=limit)
    dest = job.file("distilled")
    seconds = run(job, commands.distill(job, dest, limit), "distil.log")
    report = read_json(os.path.join(dest, "distill.json"))
    counts = _sums([part["counts"] for part in _parts(report)])
    _check_losses(job, counts)
    state.note("distil", seconds=seconds, counts=counts)


def one_epoch(seconds: float, distilled: float, trained: float) -> int:
    """How many sentences to distil, in ``seconds`` for that and for training.

    As many as the updates that fit after it go over once; fewer, and so more epochs, where training
    is so fast that distilling would take more than ``DISTILLING`` of the time.

    Args:
        distilled, trained: sentences in a second of distilling and of training.
    """
    share = min(DISTILLING, trained / (distilled + trained))
    return int(share * max(0.0, seconds) * distilled)


def rates(job: Job, fitting: Fitting) -> tuple[float, float, int]:
    """Sentences in a second of distilling and of training, measured on a few; the number of
    pairs."""
    few = max(PILOT, job.max_tokens // 8)
    run(job, commands.distill(job, job.file("pilot"), few, shared=False), "distil.log")
    parts = _parts(read_json(job.file("pilot", "distill.json")))
    _check_losses(job, _sums([part["counts"] for part in parts]))
    distilled = min(part["decoding"]["sentences_per_second_and_process"] for part in parts)
    run(job, commands.time_training(job, fitting, "pilot", PILOT_UPDATES), "train.log")
    shutil.rmtree(job.file("pilot"))
    trained = sentences_per_second(job.file("logs", "train.log"))
    return distilled * (job.workers or 1), trained, len(parts)


def _parts(report: dict[str, Any]) -> list[dict[str, Any]]:
    """What a distillation logs of each pair."""
    return list(report.get("pairs", {"": report}).values())


def _sums(counts: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts of several pairs, added up."""
    sums: dict[str, Any] = {}
    for name in dict.fromkeys(name for each in counts for name in each):
        values = [each[name] for each in counts if name in each]
        sums[name] = _sums(values) if isinstance(values[0], dict) else sum(values)
    return sums


def _check_losses(job: Job, counts: dict[str, Any]) -> None:
    """Refuse a corpus of which most is of no use, before hours are spent on the rest."""
    if counts["dropped"] > MOST_LOST * counts["chosen"]:
        commonest = max(counts["reasons"], key=lambda reason: int(counts["reasons"][reason]))
        remedy = REMEDIES[commonest]
        remedy = _LOOPS if remedy == _OTHER and _unknown(job) < MOST_UNKNOWN else remedy
        raise UsageError("distil", losses(counts), remedy)


def _unknown(job: Job) -> float:
    """Share of the source's tokens that the dictionary lacks, in the first sentences of a split."""
    source = job.all_pairs[0].partition("-")[0]
    files = sorted(glob.glob(os.path.join(glob.escape(job.data), f"*-*.{source}.idx")))
    if not files:
        return 1.0
    words = Dictionary.load(os.path.join(job.data, f"dict.{source}.txt"))
    text = data_utils.load_indexed_dataset(files[0][: -len(".idx")], words)
    tokens = torch.cat([text[i] for i in range(min(len(text), PILOT))])
    return float((tokens == words.unk()).float().mean())


def spent_distilling(state: State) -> float:
    """Seconds, with those of the measurement before it."""
    distilled = state.results("distil")
    return float(distilled.get("pilot", 0)) + float(distilled.get("seconds", 0))


def _planned(trained: dict[str, Any], limits: Limits, left: float) -> int:
    """Updates in all, from the pace so far; before the first slice a guess."""
    if limits.updates is not None:
        return limits.updates
    done = int(trained.get("updates", 0))
    if not done:
        return 10000
    return done + int(max(0.0, left) / (trained["seconds"] / done))


def _enough(history: list[float], limits: Limits) -> str | None:
    """Why training can end, judged by accepted tokens; None if it must go on."""
    if limits.accepted is not None and history and max(history) >= limits.accepted:
        return f"{max(history):.2f} accepted tokens were asked for and reached"
    if len(history) > PATIENCE and max(history[-PATIENCE:]) < max(history[:-PATIENCE]):
        return f"no more accepted tokens in {PATIENCE} validations"
    return None


def train(job: Job, state: State, limits: Limits, fitting: Fitting) -> None:
    """Train in slices, each ended by a validation and a checkpoint, until it is enough."""
    while True:
        before = state.results("train")
        spent = spent_distilling(state) + float(before.get("seconds", 0))
        left = limits.hours * 3600 - spent if limits.hours is not None else 0.0
        done, history = int(before.get("updates", 0)), list(before.get("history", []))
        total = _planned(before, limits, left)
        why = _enough(history, limits)
        # A few updates more are not worth starting a process for.
        least = 0 if limits.updates is not None else FIRST_SLICE // 4
        if why is None and done and done >= total - least:
            why = TIME_OVER if limits.updates is None else "all updates are made"
        if why is not None:
            break
        until = min(total, done + max(FIRST_SLICE, total // SLICES) if done else FIRST_SLICE)
        seconds = run(job, commands.train(job, fitting, until, max(total, until)), "train.log")
        last = validations(job.file("logs", "train.log"))[-1]
        history.append(last["valid_accepted_tokens"])
        state.note(
            "train", done=False, updates=until, history=history,
            checked=[*before.get("checked", []), until],
            seconds=float(before.get("seconds", 0)) + seconds,
        )  # fmt: skip
        _say(until, state.results("train"), limits, left - seconds)
    _store(job)
    state.note("train", why=why, accepted=max(history))
    logger.info("train: ended: %s", why)


def _say(until: int, trained: dict[str, Any], limits: Limits, left: float) -> None:
    total = max(until, _planned(trained, limits, left))
    seconds = (total - until) * trained["seconds"] / until
    logger.info(
        "train: update %d of about %d, %.2f accepted tokens (1 without a drafter), about %d min "
        "left", until, total, trained["history"][-1], round(seconds / 60),
    )  # fmt: skip


def _store(job: Job) -> None:
    """The best checkpoint, without what only training needs."""
    state = load_model(job.file("training", "checkpoint_best.pt"))
    state.pop("last_optimizer_state", None)
    state.get("extra_state", {}).pop("metrics", None)
    with replacing(job.drafter, "wb") as stream:
        torch.save(state, stream)


def shortlist(job: Job, state: State) -> None:
    """The drafter gets the words to choose among, for each source word."""
    seconds = run(job, commands.shortlist(job), "shortlist.log")
    state.note("shortlist", seconds=seconds)


def edits(job: Job, state: State) -> None:
    """The edits that a correcting verifier nearly always makes."""
    state.note("edits", seconds=run(job, commands.edits(job), "edits.log"))
