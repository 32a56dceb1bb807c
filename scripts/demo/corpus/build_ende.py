"""English-German parallel text: from Debian packages, or from two files of your own."""

import collections
import logging
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from text_files import read_lines, write_lines

from fairseq_specdec.io.progress import erased_bar as bar

from . import catalogs, descriptions, docbook, libreoffice, manpages, mozilla
from .apt import PrivateApt
from .packages import package_names
from .splits import SPLITS, Row, split_rows
from .text import Pair, is_good_pair, normalise, word_counts

logger = logging.getLogger("corpus")
LANGUAGE = "de"
SUITES = "bookworm trixie"
DEBIAN_MANUALS = ("debian-reference", "debian-faq", "developers-reference")
MIN_WORDS, MAX_WORDS = 3, 100  # of an English sentence; of either side
HELD = 2000
OWN_HELD_SHARE = 20  # of text of one's own, at most one sentence in 20 goes into each held-out set


class Source(NamedTuple):
    """Raw pairs of one origin and the filter that they must pass."""

    origin: str
    pairs: list[Pair]
    is_good: Callable[[str, str, str], bool]


def kde_manuals(unpacked: pathlib.Path) -> list[Pair]:
    """The handbooks of all KDE programs that are unpacked."""
    pairs: list[Pair] = []
    for english in sorted(unpacked.glob("*/usr/share/doc/HTML/en")):
        translated = english.parent / LANGUAGE
        if translated.is_dir():
            pairs += docbook.collect(english, translated)
    return pairs


def debian_manual(unpacked: pathlib.Path, name: str) -> list[Pair]:
    """One Debian manual: its English and German files lie apart or differ by name."""
    english: dict[str, pathlib.Path] = {}
    german: dict[str, pathlib.Path] = {}
    for path in sorted(unpacked.glob(f"{name}*/usr/share/**/*.html")):
        if path.name.endswith(f".{LANGUAGE}.html") or LANGUAGE in path.parts:
            german[re.sub(r"\.\w\w\.html$", ".html", path.name)] = path
        elif path.name.endswith(".en.html") or not re.search(r"\.\w\w(_\w\w)?\.html$", str(path)):
            english.setdefault(re.sub(r"\.en\.html$", ".html", path.name), path)
    pairs: list[Pair] = []
    for page, path in sorted(german.items()):
        if page in english:
            pairs += docbook.align_files(english[page], path)
    return pairs


def sources(apt: PrivateApt, roots: list[pathlib.Path]) -> Iterator[Source]:
    """All origins; of two translations of a sentence the earlier origin's is kept."""
    unpacked = apt.unpacked
    pairs = descriptions.collect(apt.lists, LANGUAGE, apt.read_index)
    yield Source("descriptions", pairs, is_good_pair)
    yield Source("man", manpages.collect(roots, LANGUAGE), manpages.is_good)
    help_root = "usr/share/libreoffice/help"
    pairs = libreoffice.collect(
        unpacked / "libreoffice-help-en-us" / help_root / "en-US",
        unpacked / f"libreoffice-help-{LANGUAGE}" / help_root / LANGUAGE,
    )
    yield Source("libreoffice-help", pairs, is_good_pair)
    yield Source("kde-docs", kde_manuals(unpacked), is_good_pair)
    evolution = unpacked / "evolution-common/usr/share/help"
    yield Source(
        "evolution-common", docbook.collect(evolution / "C", evolution / LANGUAGE), is_good_pair
    )
    for name in DEBIAN_MANUALS:
        yield Source(name, debian_manual(unpacked, name), is_good_pair)
    yield Source("mozilla", mozilla.collect(unpacked, LANGUAGE), catalogs.is_good)
    yield Source("gettext", catalogs.collect(roots, LANGUAGE), catalogs.is_good)


def clean(sources: Iterator[Source]) -> list[Row]:
    """Normalised pairs that pass their filter, one for each English sentence."""
    rows: list[Row] = []
    seen: set[str] = set()
    for source in sources:
        before = len(rows)
        for raw_english, raw_german in bar(source.pairs, source.origin, unit="pair"):
            english, german = normalise(raw_english), normalise(raw_german)
            if not MIN_WORDS <= len(english.split()) <= MAX_WORDS:
                continue
            if len(german.split()) > MAX_WORDS or english.lower() in seen:
                continue
            if source.is_good(english, german, LANGUAGE):
                seen.add(english.lower())
                rows.append(Row(source.origin, english, german))
        logger.info(
            "%s: %d pairs (of %d found)", source.origin, len(rows) - before, len(source.pairs)
        )
    return rows


def own_text(english: pathlib.Path, german: pathlib.Path) -> Iterator[Source]:
    """Text of the user's own as a source."""
    ours, theirs = read_lines(english), read_lines(german)
    if len(ours) != len(theirs):
        raise ValueError(
            f"EN_FILE {english} has {len(ours)} lines, DE_FILE {german} {len(theirs)}: line n of "
            "one must translate line n of the other"
        )
    yield Source("own", list(zip(ours, theirs)), is_good_pair)


def write_corpus(rows: list[Row], held: int, out: pathlib.Path) -> dict[str, list[Row]]:
    """Split and write; test.de comes last, so that its presence means that all is there."""
    splits = split_rows(rows, held)
    write_lines(out / "origin.tsv", ("\t".join(row) for row in rows))
    for name in SPLITS:
        write_lines(out / f"{name}.en", (row.source for row in splits[name]))
        write_lines(out / f"{name}.de", (row.target for row in splits[name]))
    return splits


def write(
    out: pathlib.Path,
    work: pathlib.Path,
    tier: str = "core",
    own: Sequence[str] = (),
    held: int = HELD,
) -> None:
    """Write {train,valid,test}.{en,de} and origin.tsv (origin, English, German of every pair).

    Args:
        tier: how much to fetch, one of ``TIERS``.
        own: an English and a German file, one sentence a line, instead of packages.
        held: sentences in valid and in test.
    """
    if own:
        english_file, german_file = map(pathlib.Path, own)
        rows = clean(own_text(english_file, german_file))
        held = min(held, len(rows) // OWN_HELD_SHARE)
        if not held:
            raise ValueError(f"EN_FILE {own[0]}: only {len(rows)} usable pairs")
    else:
        apt = PrivateApt(work, SUITES, ("en", LANGUAGE))
        roots = apt.fetch(package_names(tier))
        logger.info("%d packages are unpacked", len(roots))
        rows = clean(sources(apt, roots))
    splits = write_corpus(rows, held, out)
    for name in SPLITS:
        english, german = word_counts((row.source, row.target) for row in splits[name])
        logger.info(
            "%s: %d pairs, %d English and %d German words", name, len(splits[name]), english, german
        )
    origins = collections.Counter(row.origin for row in rows)
    logger.info("origins: %s", ", ".join(f"{k} {v}" for k, v in origins.most_common()))
