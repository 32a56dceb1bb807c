"""The steps that make a drafter: distil and train. Each is done once; a stopped one resumes."""

import json
import logging
import os
import shutil
import subprocess
import time
from collections import Counter
from typing import Any

import torch

from fairseq_specdec.errors import UsageError

from ..checkpoints.reading import load_model
from ..data.merge import losses
from ..io.atomic import read_json, replacing
from . import commands
from .commands import DRAFTER, Job

logger = logging.getLogger("fairseq_specdec.accelerate")

PILOT = 256  # sentences whose distillation is timed, at least: they fill about 3 batches
PILOT_UPDATES = 10  # on them, which are timed
FEWEST = 1000  # sentences to distil
DISTILLING = 0.5  # most of the time
FIRST_SLICE = 100  # updates
SLICES = 8  # about how many validations
PATIENCE = 4  # validations without a better one, after which training ends
TELL_EVERY = 60.0  # seconds, of what a long step has done
MOST_LOST = 0.5  # of the pairs; of more the data are not the verifier's
REMEDY = (
    "DATA seem to be of other subwords, another dictionary or other languages than the verifier's "
    "(binarise text in its subwords with --srcdict and --tgtdict of its training), or the model "
    "loops or is undertrained: look at what it writes"
)


# ---- a process and its log -----------------------------------------------------------------------


def run(job: Job, words: list[str], log: str) -> float:
    """Run a command, its output added to a log; its seconds. How far it is is logged meanwhile."""
    step, path = os.path.splitext(log)[0], job.file("logs", log)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    began, status = time.monotonic(), None
    with open(path, "a", encoding="utf-8") as stream:
        before = stream.tell()
        process = subprocess.Popen(
            words, stdout=stream, stderr=subprocess.STDOUT, env=commands.environment(job)
        )
        try:
            while status is None:
                try:
                    status = process.wait(timeout=TELL_EVERY)
                except subprocess.TimeoutExpired:
                    said = (line.rpartition(" | ")[2] for line in lines_of(job, log, before))
                    counted = [each for each in said if any(map(str.isdigit, each))]
                    if counted:
                        logger.info("%s: %s", step, counted[-1])
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if status:
        lines = lines_of(job, log) or ["its log is empty"]
        errors = [line.partition("error: ")[2] for line in lines if "error: " in line]
        raise UsageError(step, f"{(errors or lines)[-1]} (all of it: {path})")
    return time.monotonic() - began


def lines_of(job: Job, log: str, start: int = 0) -> list[str]:
    """The lines of a log, without empty ones."""
    with open(job.file("logs", log), "rb") as stream:
        stream.seek(start)
        lines = stream.read().decode("utf-8", "replace").splitlines()
    return [line.strip() for line in lines if line.strip()]


def figures(job: Job, name: str) -> dict[str, float]:
    """The last figures that fairseq-train logged with ``--log-format json``, ``name`` in them."""
    line = next(each for each in reversed(lines_of(job, "train.log")) if name in each)
    return {key: float(value) for key, value in json.loads(line[line.index("{") :]).items()}


# ---- distillation --------------------------------------------------------------------------------


def distil(job: Job) -> None:
    """The verifier's own output becomes the drafter's training targets. In ``job.hours`` so many
    sentences are distilled as the updates that fit after it go over once; fewer, and so more
    epochs, where training is so fast that distilling would take more than ``DISTILLING`` of the
    time."""
    if job.state.done("distil"):
        return
    logger.info("distil: the verifier rewrites the training targets")
    if "limit" not in job.state.results("distil"):
        limit, began, pilot = job.args.limit, time.monotonic(), 0.0
        if job.hours is not None:
            distilled, trained, pairs = rates(job)
            pilot = time.monotonic() - began
            share = min(DISTILLING, trained / (distilled + trained))
            fitting = int(share * max(0.0, job.hours * 3600 - pilot) * distilled)
            most = max(FEWEST, fitting // pairs)
            limit = most if limit is None else min(limit, most)
            logger.info(
                "distil: %.0f sentences per second, in training %.0f, so at most %d%s",
                distilled, trained, limit, " of each pair" if pairs > 1 else "",
            )  # fmt: skip
        job.state.note("distil", done=False, limit=limit, pilot=pilot)
    limit = job.state.results("distil")["limit"]
    words = commands.distill(job, job.data, job.file("distilled"), limit)
    seconds = run(job, words, "distil.log")
    job.state.note("distil", seconds=seconds, counts=_distilled(job, "distilled")[1])


def rates(job: Job) -> tuple[float, float, int]:
    """Sentences per second of distilling and of training, measured on a few; the number of
    pairs."""
    few = max(PILOT, job.args.max_tokens // 8)
    run(job, commands.distill(job, job.data, job.file("pilot"), few, shared=False), "distil.log")
    parts, _ = _distilled(job, "pilot")
    distilled = min(part["decoding"]["sentences_per_second_and_process"] for part in parts)
    words = commands.train(job, PILOT_UPDATES, PILOT_UPDATES, "pilot")
    own = ["--no-save", "--disable-validation", "--log-interval", str(PILOT_UPDATES // 2)]
    run(job, [*words, *own], "train.log")
    shutil.rmtree(job.file("pilot"))
    last = figures(job, '"ups"')
    return distilled * (job.args.ray_workers or 1), last["ups"] * last["bsz"], len(parts)


def _distilled(job: Job, folder: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What a distillation reports of each pair, and the sums of its counts. Raises UsageError: most
    of it is of no use, before hours are spent on the rest."""
    report = read_json(job.file(folder, "distill.json"))
    parts = list(report.get("pairs", {"": report}).values())
    several = [part["counts"] for part in parts]
    counts = {name: sum(each[name] for each in several) for name in ("chosen", "kept", "dropped")}
    counts["reasons"] = dict(sum((Counter(each["reasons"]) for each in several), Counter()))
    if counts["dropped"] > MOST_LOST * counts["chosen"]:
        raise UsageError("distil", losses(counts), REMEDY)
    return parts, counts


# ---- training ------------------------------------------------------------------------------------


def enough(history: list[float], accepted: float | None) -> str | None:
    """Why training can end, judged by accepted tokens; None if it must go on."""
    if accepted is not None and history and max(history) >= accepted:
        return f"{max(history):.2f} accepted tokens were asked for and reached"
    if len(history) > PATIENCE and max(history[-PATIENCE:]) < max(history[:-PATIENCE]):
        return f"no more accepted tokens in {PATIENCE} validations"
    return None


def train(job: Job) -> None:
    """Train in slices, each ended by a validation and a checkpoint, until it is enough. A training
    that is complete continues if more time or updates are given."""
    state, updates, distilled = job.state, job.args.updates, job.state.results("distil")
    seconds = (job.hours or 0.0) * 3600 - distilled.get("pilot", 0.0) - distilled["seconds"]
    while True:
        before: dict[str, Any] = {"updates": 0, "history": [], "checked": [], "seconds": 0.0}
        before.update(state.results("train"))
        done, history, spent = (before[name] for name in ("updates", "history", "seconds"))
        pace = spent / done if done else 0.0
        total = updates or (done + int(max(0.0, seconds - spent) / pace) if done else 10000)
        if done:
            logger.info(
                "train: update %d of about %d, %.2f accepted tokens (1 without a drafter), about "
                "%d min left", done, total, history[-1], round(max(0, total - done) * pace / 60),
            )  # fmt: skip
        why = enough(history, job.args.accepted)
        # A few updates more are not worth starting a process for.
        if why is None and done and done >= total - (0 if updates else FIRST_SLICE // 4):
            why = "all updates are made" if updates else "the time is over"
        if why is not None:
            break
        until = min(total, done + max(FIRST_SLICE, total // SLICES) if done else FIRST_SLICE)
        spent += run(job, commands.train(job, until, max(total, until)), "train.log")
        accepted = figures(job, '"valid_num_updates"')["valid_accepted_tokens"]
        state.note(
            "train", done=False, updates=until, seconds=spent, history=[*history, accepted],
            checked=[*before["checked"], until],
        )  # fmt: skip
    if not state.done("train"):
        _store(job)
        state.note("train", why=why, accepted=max(history))
        state.note("shortlist", done=False)
        logger.info("train: ended: %s", why)


def _store(job: Job) -> None:
    """The best checkpoint, without what only training needs."""
    state = load_model(job.file("training", "checkpoint_best.pt"))
    state.pop("last_optimizer_state", None)
    state.get("extra_state", {}).pop("metrics", None)
    with replacing(job.file(DRAFTER), "wb") as stream:
        torch.save(state, stream)


def learn(job: Job) -> None:
    """The drafter's vocabulary shortlist."""
    state = job.state
    if not state.done("shortlist"):
        flags = ("--drafter-path", job.file(DRAFTER), "--out", job.file(DRAFTER))
        seconds = run(job, commands.learn(job, "shortlist", *flags), "shortlist.log")
        state.note("shortlist", seconds=seconds)
        state.note("measure", done=False)
