"""The steps that measure, and what is recommended from their figures."""

import os
import shutil
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..hub import choice
from ..io.atomic import read_json, replacing
from ..io.provenance import sha256
from . import commands
from .commands import DRAFTER, GAD, Job, row_of
from .steps import logger, run

COMPARED = 20  # sentences, to find within a minute what this engine does without a drafter
WARMUP = 3  # uncounted batches that specdec-bench decodes first
SHARE = 0.15  # of the time, for measuring
FEWEST = 10  # sentences to measure
LEAST_GAIN = 1.02  # times as fast as greedy, and tokens per iteration, of drafts that pay
CORRECTS = 1.1  # times as fast as greedy that copying the source makes a model that corrects text

Rows = dict[str, dict[str, Any]]
"""Figures of ``specdec-bench`` at one batch size, by the name of the row."""


class Best(NamedTuple):
    """The fastest way to decode a pair with a beam."""

    pair: str
    size: int  # sentences at a time
    beam: int
    way: str  # of ``WAYS``
    row: dict[str, Any] = {}  # its figures
    ms: dict[str, float] = {}  # per sentence, by way
    stock: float = 0.0  # that of stock fairseq at the same beam

    @property
    def use(self) -> str:
        """What it is the fastest for."""
        at_once = "one sentence" if self.size == 1 else f"{self.size} sentences"
        return f"{at_once} at a time, beam {self.beam}, {self.pair}"

    @property
    def figures(self) -> str:
        """The use, the way and how fast it is."""
        ms = self.ms[self.way]
        return (
            f"{self.use}: {self.way}, {ms:.1f} ms per sentence, {self.stock / ms:.1f} times stock "
            "fairseq's speed at that beam"
        )


def fastest(job: Job, rows: Rows, pair: str, size: int, beam: int) -> Best:
    """The fastest of the job's ways in ``rows``; greedy unless drafts were made and pay: times vary
    from run to run where nothing was drafted."""
    of_way = {way: rows[row_of(way, beam)] for way in job.ways if row_of(way, beam) in rows}
    ms = {way: float(row["ms_mean"]) for way, row in of_way.items()}
    gains = {way: min(ms["greedy"] / ms[way], row.get("tok") or 1) for way, row in of_way.items()}
    pay = [way for way, gain in gains.items() if gain >= LEAST_GAIN]
    way = min(pay, key=ms.__getitem__, default="greedy")
    stock = float(rows[f"fairseq beam {beam}"]["ms_mean"])
    return Best(pair, size, beam, way, of_way[way], ms, stock)


def name_of(pair: str, size: int) -> str:
    """The name of a use's figures."""
    return f"{pair}, batches of {size}"


def recommend(job: Job) -> list[Best]:
    """The fastest way for each use and beam that was measured."""
    rows = job.state.results("measure")["rows"]
    return [fastest(job, rows[name_of(*use)], *use, b) for use in job.uses for b in job.beams]


def without_drafter(job: Job) -> list[Best]:
    """The fastest way at each beam, one sentence of the first pair at a time, by the rows of
    :func:`compare`."""
    rows = job.state.results("compare")["rows"]
    return [fastest(job, rows, job.pairs[0], 1, beam) for beam in job.beams]


def rows_of(
    job: Job, pair: str, ways: Sequence[str], sizes: Sequence[int], limit: int
) -> dict[int, Rows]:
    """Figures by batch size, of so many sentences."""
    run(job, commands.measure(job, pair, ways, sizes, limit), "measure.log")
    runs = read_json(job.file("measured.json"))["runs"]
    return {each["batch_size"]: {r["system"]: r for r in each["rows"]} for each in runs}


def compare(job: Job) -> None:
    """Speed and output without a drafter against stock fairseq, on a few sentences of the first
    pair."""
    if job.state.done("compare", beams=job.beams):
        return
    logger.info("compare: this engine with stock fairseq, without a drafter")
    ways = ["greedy", *(["iad"] if job.one_dictionary else [])]
    rows = rows_of(job, job.pairs[0], ways, [1], COMPARED)[1]
    job.state.note("compare", rows=rows, sentences=COMPARED, beams=job.beams)


def worthwhile(job: Job) -> list[str]:
    """Those of ``WAYS`` that are worth measuring, by the rows of :func:`compare`."""
    rows = job.state.results("compare")["rows"]
    greedy, copied = rows["greedy"], rows.get("iad")
    if copied is None or float(greedy["ms_mean"]) < CORRECTS * float(copied["ms_mean"]):
        return ["greedy", GAD]
    return ["greedy", GAD, "iad"]


def plan(job: Job) -> tuple[float | None, int]:
    """The hours of ``--hours`` that are left to make the drafter, and how many sentences are
    measured after it: fewer than asked for if time is short. What was not measured by
    :func:`compare` is taken to be no slower than greedy."""
    rows, hours = job.state.results("compare")["rows"], job.args.hours
    ours = sum(float(rows[row_of("greedy", beam)]["ms_mean"]) for beam in job.beams)
    stock = sum(float(row["ms_mean"]) for name, row in rows.items() if name.startswith("fairseq "))
    one = (stock + ours * len(job.ways)) * len(job.uses) / 3.6e6
    sentences: int = job.args.measure_sentences
    if hours is None:
        return None, sentences
    sentences = min(sentences, max(FEWEST, int(SHARE * hours / one) - WARMUP))
    return max(0.0, hours - one * (sentences + WARMUP)), sentences


def measure(job: Job) -> None:
    """Speed and output of all ways against stock fairseq."""
    names = [name_of(*use) for use in job.uses]
    if job.state.done("measure", beams=job.beams, uses=names):
        return
    logger.info("measure: %d validation sentences", job.sentences)
    parts = [rows_of(job, p, job.ways, job.args.batch_sizes, job.sentences) for p in job.pairs]
    rows = dict(zip(names, (rows for part in parts for rows in part.values())))
    job.state.note("measure", rows=rows, sentences=job.sentences, beams=job.beams, uses=names)


def place(job: Job, recommended: Sequence[Best]) -> None:
    """Put the drafter beside the converted verifier, where it is found by itself, and note there
    how each pair decodes fastest, one sentence at a time, if that was measured. Another drafter
    stays, and nothing is put there."""
    folder = os.path.relpath(str(job.converted))
    beside = os.path.join(folder, DRAFTER)
    ours = (sha256(job.file(DRAFTER)), job.state.results("place").get("sha256"))
    if os.path.isfile(beside) and sha256(beside) not in ours:
        logger.warning("%s: is another drafter, and stays; name %s", beside, job.file(DRAFTER))
        return
    with replacing(beside, "wb") as out, open(job.file(DRAFTER), "rb") as stream:
        shutil.copyfileobj(stream, out)
    job.state.note("place", sha256=ours[0])
    job.placed = beside
    if 1 in job.args.batch_sizes:
        alone = [best for best in recommended if best.size == 1]
        ways = {p: {each.beam: each.way for each in alone if each.pair == p} for p in job.pairs}
        choice.note(folder, beside, ways)
