"""Fetch what a recipe lists under ``sources`` or ``pretrained``, resuming, and check it.

A checksum is ``sha256:...`` or ``md5:...``. Where none is published, the SHA-256 of the first fetch
is written beside the file and checked from then on: that guards against later changes and
truncation, not against a wrong first file. The log shows which it was.
"""

import hashlib
import logging
import pathlib
import urllib.error
import urllib.request
from typing import Any

from recipe_file import UNKNOWN, Source, sources

from fairseq_specdec.io.atomic import replacing
from fairseq_specdec.io.progress import erased_bar as bar

logger = logging.getLogger("fetch")
CHUNK = 1 << 20
TIMEOUT = 60  # seconds without a byte


class SourceError(ValueError):
    """A file cannot be had, or is not what it was."""


def digest(path: pathlib.Path, algorithm: str) -> str:
    """``algorithm:digits`` of a file."""
    hashed = hashlib.new(algorithm)
    size = path.stat().st_size
    with open(path, "rb") as stream, bar(title="checking", total=size, unit="B") as shown:
        for chunk in iter(lambda: stream.read(CHUNK), b""):
            hashed.update(chunk)
            shown.update(len(chunk))
    return f"{algorithm}:{hashed.hexdigest()}"


def receive(answer: Any, url: str, partial: pathlib.Path, have: int) -> None:
    """Write what a server sends: what is missing after ``have`` bytes, or all of it again."""
    goes_on = getattr(answer, "status", None) == 206
    have = have if goes_on else 0
    length = answer.headers.get("Content-Length")  # of what is left
    total = have + int(length) if length else None
    with (
        open(partial, "ab" if goes_on else "wb") as stream,
        bar(title=partial.stem[-40:], total=total, initial=have, unit="B") as shown,
    ):
        for chunk in iter(lambda: answer.read(CHUNK), b""):
            stream.write(chunk)
            have += len(chunk)
            shown.update(len(chunk))
    if total is not None and have != total:
        raise SourceError(f"{url}: broke off after {have} of {total} bytes; run it again")


def download(url: str, path: pathlib.Path) -> None:
    """Fetch into ``path``, going on where a killed run stopped if the server can."""
    partial = path.with_name(path.name + ".partial")
    have = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "fairseq-specdec"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            receive(answer, url, partial, have)
    except (urllib.error.URLError, OSError) as error:
        if getattr(error, "code", None) == 416:  # nothing is left to send
            logger.info("%s: was there already", url)
        else:
            raise SourceError(
                f"{url} cannot be fetched ({error}); run it again, or fetch the file by other "
                f"means and put it at {path}"
            ) from error
    partial.replace(path)


def check(source: Source, path: pathlib.Path) -> None:
    """Compare a file with its published checksum, else with that of its first fetch."""
    note = path.with_name(path.name + ".sha256")
    if source.checksum != UNKNOWN:
        wanted, whose = source.checksum, "the published checksum"
    elif note.exists():
        wanted, whose = note.read_text(encoding="ascii").strip(), f"the first fetch ({note})"
    else:
        actual = digest(path, "sha256")
        with replacing(note, make_folder=True) as stream:
            stream.write(actual + "\n")
        logger.info("%s: no published checksum; %s noted in %s", path.name, actual, note)
        return
    actual = digest(path, wanted.split(":")[0])
    if actual != wanted:
        raise SourceError(
            f"{path}: is {actual}, but {whose} is {wanted}: delete it and run this again; if it "
            "stays so, its publisher has changed it"
        )
    logger.info("%s: agrees with %s", path.name, whose)


def fetch(
    recipe: pathlib.Path, folder: pathlib.Path, *splits: str, section: str = "sources"
) -> None:
    """Fetch what is missing of a section of a recipe's YAML, and check everything. ``splits``:
    which of it (default: all)."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [row for row in sources(recipe, section) if not splits or row.split in splits]
    for source in {source.url: source for source in wanted}.values():
        path = folder / source.name
        if not path.exists():
            logger.info("fetching %s (%s)", source.url, source.licence)
            download(source.url, path)
        check(source, path)
