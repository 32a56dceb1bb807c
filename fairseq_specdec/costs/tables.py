"""Which figures of a processor hold: those of a file, of this machine, or the shipped ones."""

import functools
import hashlib
import json
import logging
import os
import pathlib
import time

from fairseq_specdec.engine.native.library import Library
from fairseq_specdec.errors import UsageError
from fairseq_specdec.version import __version__

from .figures import Figures, checked, load, save
from .measure import measure, processor

logger = logging.getLogger(__name__)

ENVIRONMENT = "FAIRSEQ_SPECDEC_COST_TABLE"
# Of ``measure``: figures that were kept by another way of measuring are measured anew.
_MEASUREMENT = 4
SHIPPED = pathlib.Path(__file__).with_name("shipped.json")
# Figures of processors that were measured at rest, by variant (benchmarks/costs.md).
KNOWN = pathlib.Path(__file__).with_name("known.json")
AUTO, OFF = "auto", "off"

# Of the time of a measurement, in which its thread had a processor: figures that were measured
# with less are not kept. On an idle machine it is 0.99 and more.
UNDISTURBED = 0.95


def figures(asked: str, library: Library) -> Figures:
    """The figures for the variant of a library.

    Args:
        asked: "auto" for those of this machine, which are measured where they were not and kept in
            the user's cache folder; "off" for those that are shipped; else a file. The environment
            variable FAIRSEQ_SPECDEC_COST_TABLE replaces "auto".
        library: the loaded library.

    Raises:
        ValueError: a file that cannot be read or holds no figures.
    """
    asked, name = source(asked)
    if asked == AUTO:
        return of_machine(library)
    return shipped() if asked == OFF else _named(asked, name)


def source(asked: str) -> tuple[str, str]:
    """(what holds, the flag or variable that names it) of ``--cost-table``."""
    other = os.environ.get(ENVIRONMENT)
    return (other, ENVIRONMENT) if asked == AUTO and other else (asked, "--cost-table")


def check(asked: str) -> None:
    """Refuse a file without figures, before any model is loaded.

    Raises:
        ValueError: it names the flag or variable, the file and the remedy.
    """
    asked, name = source(asked)
    if asked not in (AUTO, OFF):
        _named(asked, name)


def _named(path: str, name: str) -> Figures:
    try:
        return load(path)
    except ValueError as error:
        raise UsageError(
            name, error, "python -m fairseq_specdec.costs.cli FILE writes one"
        ) from None


@functools.cache
def shipped() -> Figures:
    """The same on every machine: an Intel Emerald Rapids, held to AVX2."""
    return load(SHIPPED)


@functools.cache
def known(variant: str) -> Figures | None:
    """The package's figures of this processor with a variant of the library; None where it has
    none."""
    rows = json.loads(KNOWN.read_text(encoding="utf-8"))
    measured = [checked(each["figures"]) for each in rows if each["variant"] == variant]
    return next((each for each in measured if each.processor == processor()), None)


@functools.cache
def of_machine(library: Library) -> Figures:
    """The figures of this machine, measured where they are not kept."""
    path = kept_at(library.variant)
    try:
        if path.exists():
            return load(path)
    except ValueError as error:
        logger.debug("%s", error)
    fresh, share = measured(library)
    if share < UNDISTURBED:
        instead = known(library.variant)
        logger.info(
            "measured what passes take while other programs had %.0f%% of the time: %s now, not "
            "kept; python -m fairseq_specdec.costs.cli measures and keeps it",
            100 * (1 - share),
            "used" if instead is None else "the package's figures of this processor are used",
        )
        return instead or fresh
    try:
        save(fresh, path)
        logger.info("measured what passes take on this processor, kept in %s", path)
    except OSError as error:
        logger.debug("figures of this processor are not kept: %s", error)
    return fresh


def measured(library: Library) -> tuple[Figures, float]:
    """The figures, and the share of the time in which this thread had a processor."""
    started, used = time.perf_counter(), time.thread_time()
    fresh = measure(library)
    return fresh, (time.thread_time() - used) / max(time.perf_counter() - started, 1e-9)


def origin(asked: str, library: Library) -> str:
    """Where the figures of ``--cost-table`` are from, for the reader of a table; none are measured.

    Raises:
        ValueError: as in ``check``.
    """
    check(asked)
    asked, name = source(asked)
    if asked == OFF:
        return f"shipped: {shipped().processor}"
    path = kept_at(library.variant)
    if asked != AUTO:
        return f"{name}: {asked}"
    return f"this machine's, {path}" if path.exists() else "measured at the first use"


def kept_at(variant: str) -> pathlib.Path:
    """The file of this machine's figures for a variant of the library."""
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    name = f"{__version__} {_MEASUREMENT} {processor()}"
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    return pathlib.Path(folder) / "fairseq_specdec" / f"costs-{variant}-{digest}.json"
