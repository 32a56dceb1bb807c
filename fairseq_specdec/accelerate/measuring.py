"""The steps that measure, and what is recommended from their figures."""

import os
import shutil
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..hub import measured
from ..io.atomic import read_json, replacing
from ..io.provenance import sha256
from . import commands
from .commands import DRAFTER, EDITS, WAYS, Job, row_of
from .steps import logger, run

COMPARED = 20  # sentences, to say within a minute what this engine does without a drafter
WARMUP = 3  # batches that specdec-bench decodes beforehand
SHARE = 0.15  # of the time, for measuring
FEWEST = 10  # sentences to measure
LEAST_GAIN = 1.02  # times as fast as greedy, and tokens per iteration, of drafts that pay
CORRECTS = 1.1  # times as fast as greedy that copying the source makes a model that corrects text


class Best(NamedTuple):
    """The fastest way to decode for one use."""

    name: str  # of the use: its batch size, with the pair where there are several
    pair: str
    size: int  # sentences at a time
    beam: int
    way: str  # of ``WAYS``
    row: dict[str, Any]  # its figures; ``stock``: those of stock fairseq at the same beam
    stock: dict[str, Any]
    greedy: dict[str, Any] = {}

    @property
    def use(self) -> str:
        """What it is the fastest for."""
        at_a_time = "one sentence" if self.size == 1 else f"{self.size} sentences"
        pair = f", {self.pair}" if self.name != str(self.size) else ""
        return f"{at_a_time} at a time, beam {self.beam}{pair}"

    @property
    def speed(self) -> float:
        """Over stock fairseq at the same beam."""
        return float(self.stock["ms_mean"]) / float(self.row["ms_mean"])

    def command(self, job: Job) -> str:
        """To decode with."""
        return commands.decode(job, self.pair, self.way, self.beam, self.size)


def fastest(rows: dict[str, Any], use: tuple[str, str, int], beam: int) -> Best:
    """The fastest way of ``rows``, by name, which were measured for one of ``Job.uses``; greedy
    unless drafts were made and pay: times vary from run to run where nothing was drafted."""
    of_way = {way: rows[row_of(way, beam)] for way in WAYS if row_of(way, beam) in rows}
    greedy, best = of_way["greedy"], "greedy"
    for way, row in of_way.items():
        gain = float(greedy["ms_mean"]) / float(row["ms_mean"])
        pays = min(gain, float(row.get("tok") or 1)) >= LEAST_GAIN
        if pays and row["ms_mean"] < of_way[best]["ms_mean"]:
            best = way
    return Best(*use, beam, best, of_way[best], rows[f"fairseq beam {beam}"], greedy)


def recommend(job: Job) -> list[Best]:
    """The fastest way for each use and beam that was measured."""
    rows = job.state.results("measure")["rows"]
    return [fastest(rows[use[0]], use, beam) for use in job.uses for beam in job.beams]


def without_drafter(job: Job) -> list[Best]:
    """The fastest way at each beam, one sentence of the first pair at a time, by the rows of
    :func:`compare`."""
    rows = job.state.results("compare")["rows"].items()
    others = set(WAYS) - set(job.ways)
    rows = {name: row for name, row in rows if name.partition(",")[0] not in others}
    return [fastest(rows, job.use(job.pairs[0], 1), beam) for beam in job.beams]


def rows_of(job: Job, *measured: Any) -> dict[str, Any]:
    """Figures by batch size and row. ``measured``: arguments of ``commands.measure``."""
    run(job, commands.measure(job, *measured), "measure.log")
    runs = read_json(job.file("measured.json"))["runs"]
    return {str(each["batch_size"]): {r["system"]: r for r in each["rows"]} for each in runs}


def compare(job: Job) -> None:
    """Speed and output without a drafter against stock fairseq, on a few sentences of the first
    pair."""
    if job.state.done("compare", beams=job.beams):
        return
    logger.info("compare: this engine with stock fairseq, without a drafter")
    ways = ["greedy", *(["iad"] if job.one_dictionary else [])]
    rows = rows_of(job, job.pairs[0], ways, [1], COMPARED)["1"]
    job.state.note("compare", rows=rows, sentences=COMPARED, beams=job.beams)


def worthwhile(job: Job) -> tuple[str, ...]:
    """Those of ``WAYS`` that are worth measuring, by the rows of :func:`compare`."""
    rows = job.state.results("compare")["rows"]
    greedy, copied = rows["greedy"], rows.get("iad")
    if copied is None or float(greedy["ms_mean"]) < CORRECTS * float(copied["ms_mean"]):
        return ("greedy", "gad")
    # What is noted beside a converted model names a strategy alone.
    return ("greedy", "gad", "iad", *([EDITS] if job.converted is None else []))


def _seconds(job: Job) -> float:
    """What measuring one sentence takes, by the rows of :func:`compare`; what was not measured
    there is taken to be no slower than greedy."""
    rows = job.state.results("compare")["rows"]
    ours = sum(float(rows[row_of("greedy", beam)]["ms_mean"]) for beam in job.beams)
    stock = sum(float(row["ms_mean"]) for name, row in rows.items() if name.startswith("fairseq "))
    return (stock + ours * len(job.ways)) * len(job.uses) / 1000


def time_to_make(job: Job) -> float | None:
    """``--hours`` without the time that measuring will take."""
    hours = job.args.hours
    if hours is None:
        return None
    needed = _seconds(job) * (job.args.measure_sentences + WARMUP)
    return float(hours - min(needed / 3600, SHARE * hours))


def measure(job: Job) -> None:
    """Speed and output of all ways against stock fairseq; fewer sentences if time is short."""
    sizes = list(job.args.batch_sizes)
    if job.state.done("measure", beams=job.beams, sizes=sizes):
        return
    one, sentences = _seconds(job), job.args.measure_sentences
    if job.hours is not None:
        most = SHARE / (1 - SHARE) * job.hours * 3600 / one - WARMUP
        sentences = min(sentences, max(FEWEST, int(most)))
    minutes = max(1, one * (sentences + WARMUP) / 60)
    logger.info("measure: %d validation sentences, about %.0f min", sentences, minutes)
    parts = {pair: rows_of(job, pair, job.ways, sizes, sentences) for pair in job.pairs}
    rows = {name: parts[pair][str(size)] for name, pair, size in job.uses}
    job.state.note("measure", rows=rows, sentences=sentences, beams=job.beams, sizes=sizes)


def place(job: Job) -> str | None:
    """Put the drafter beside the converted verifier, where it is found by itself; its path there.
    Another drafter stays, and there is none."""
    beside = os.path.join(os.path.relpath(str(job.converted)), DRAFTER)
    ours = (sha256(job.file(DRAFTER)), job.state.results("place").get("sha256"))
    if os.path.isfile(beside) and sha256(beside) not in ours:
        logger.warning("%s: is another drafter, and stays; name %s", beside, job.file(DRAFTER))
        return None
    with replacing(beside, "wb") as out, open(job.file(DRAFTER), "rb") as stream:
        shutil.copyfileobj(stream, out)
    job.state.note("place", sha256=ours[0])
    return beside


def note_fastest(job: Job, recommended: Sequence[Best]) -> None:
    """Note beside the placed drafter how each pair decodes fastest, one sentence at a time; nothing
    where that was not measured."""
    ways: dict[str, dict[int, str]] = {}
    for best in recommended:
        if best.size == 1:
            ways.setdefault(best.pair, {})[best.beam] = best.way
    if ways:
        measured.note(str(job.converted), str(job.placed), ways)
