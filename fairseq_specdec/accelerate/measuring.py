"""The steps that measure, and what is recommended from their figures."""

import logging
from typing import Any, NamedTuple

from ..io.atomic import read_json
from . import commands
from .commands import EDITS, WAYS, Job, row_of
from .state import State
from .steps import Limits, run

logger = logging.getLogger("fairseq_specdec.accelerate")

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


def recommend(job: Job, state: State) -> list[Best]:
    """The fastest way for each use and beam that was measured."""
    rows = state.results("measure")["rows"]
    return [fastest(rows[use[0]], use, beam) for use in job.uses for beam in job.beams]


def without_drafter(job: Job, state: State) -> list[Best]:
    """The fastest way at each beam, one sentence of the first pair at a time, by the rows of
    :func:`compare`."""
    use = job._replace(batch_sizes=(1,)).uses[0]
    others = set(WAYS) - set(job.ways)
    rows = state.results("compare")["rows"].items()
    rows = {name: row for name, row in rows if name.partition(",")[0] not in others}
    return [fastest(rows, use, beam) for beam in job.beams]


def rows_of(
    job: Job, pair: str, ways: list[str], sizes: list[int], sentences: int
) -> dict[str, Any]:
    """Figures of a pair by batch size and row."""
    run(job, commands.measure(job, pair, ways, sizes, sentences), "measure.log")
    return {
        str(part["batch_size"]): {row["system"]: row for row in part["rows"]}
        for part in read_json(job.file("measured.json"))["runs"]
    }


def compare(job: Job, state: State) -> None:
    """Speed and output without a drafter against stock fairseq, on a few sentences of the first
    pair."""
    ways = ["greedy", *(["iad"] if job.one_dictionary else [])]
    rows = rows_of(job, job.uses[0][1], ways, [1], COMPARED)["1"]
    state.note("compare", rows=rows, sentences=COMPARED, beams=job.beams)


def worthwhile(job: Job, state: State) -> tuple[str, ...]:
    """Those of ``WAYS`` that are worth measuring, by the rows of :func:`compare`."""
    rows = state.results("compare")["rows"]
    greedy, copied = rows["greedy"], rows.get("iad")
    if copied is None or float(greedy["ms_mean"]) < CORRECTS * float(copied["ms_mean"]):
        return ("greedy", "gad")
    # What is noted beside a converted model names a strategy alone.
    return ("greedy", "gad", "iad", *([EDITS] if job.converted is None else []))


def _seconds(job: Job, state: State) -> float:
    """What measuring one sentence takes, by the rows of :func:`compare`; what was not measured
    there is taken to be no slower than greedy."""
    rows = state.results("compare")["rows"]
    ours = sum(float(rows[row_of("greedy", beam)]["ms_mean"]) for beam in job.beams)
    stock = sum(float(row["ms_mean"]) for name, row in rows.items() if name.startswith("fairseq "))
    return (stock + ours * len(job.ways)) * len(job.uses) / 1000


def leave_time(job: Job, state: State, limits: Limits, sentences: int) -> Limits:
    """``limits`` without the time that measuring ``sentences`` will take."""
    if limits.hours is None:
        return limits
    needed = _seconds(job, state) * (sentences + WARMUP)
    return limits._replace(hours=limits.hours - min(needed / 3600, SHARE * limits.hours))


def measure(job: Job, state: State, limits: Limits, sentences: int) -> None:
    """Speed and output of all ways against stock fairseq; fewer sentences if time is short."""
    one = _seconds(job, state)
    if limits.hours is not None:
        most = SHARE / (1 - SHARE) * limits.hours * 3600 / one - WARMUP
        sentences = min(sentences, max(FEWEST, int(most)))
    minutes = max(1, one * (sentences + WARMUP) / 60)
    logger.info("measure: %d validation sentences, about %.0f min", sentences, minutes)
    sizes = list(job.batch_sizes)
    parts = {pair: rows_of(job, pair, list(job.ways), sizes, sentences) for pair in job.all_pairs}
    rows = {name: parts[pair][str(size)] for name, pair, size in job.uses}
    state.note("measure", rows=rows, sentences=sentences, beams=job.beams, sizes=sizes)
