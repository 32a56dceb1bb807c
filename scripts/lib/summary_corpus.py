"""Fetched archives -> {train,valid,test}.{source,target}: an article and its summary a line.

- ``cnndm``: the stories of CNN and the Daily Mail, split by the lists of See et al. 2017, neither
  tokenised nor anonymised. Lines without an end get a full stop, as there.
- ``xsum``: BBC articles and their first sentence (Narayan et al. 2018), without the lines that the
  web page adds.

``sources`` of a recipe lists what is read: those whose split is ``articles`` are archives, those
called train, valid, test or ``splits`` list which article belongs where.
"""

import hashlib
import io
import json
import logging
import pathlib
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from fetch import SourceError
from parallel_text import blanks as one_line
from recipe_file import Source, sources
from text_files import read_lines

from fairseq_specdec.io.atomic import replacing
from fairseq_specdec.io.progress import erased_bar as bar

logger = logging.getLogger("summary_corpus")
SPLITS = ("train", "valid", "test")
ENDS = (".", "!", "?", "'", "`", '"', "\u2019", "\u201d", ")")
HIGHLIGHT = "@highlight"
# What the web page has around a BBC article.
PAGE = {
    "Share this with", "Email", "Facebook", "Messenger", "Twitter", "Pinterest", "WhatsApp",
    "Linkedin", "LinkedIn", "Copy this link",
    "These are external links and will open in a new window",
}  # fmt: skip

Pair = tuple[str, str]


def ended(line: str) -> str:
    """A line with a full stop if it has no end: captions would run into the next sentence."""
    return line if line.startswith(HIGHLIGHT) or line.endswith(ENDS) else line + " ."


def story_pair(text: str) -> Pair:
    """Article and highlights of a .story file, each on one line; ``""`` for what it lacks."""
    lines = [ended(line) for line in map(one_line, text.splitlines()) if line]
    at = next((i for i, line in enumerate(lines) if line.startswith(HIGHLIGHT)), len(lines))
    highlights = [line for line in lines[at:] if not line.startswith(HIGHLIGHT)]
    return " ".join(lines[:at]), " ".join(highlights)


def bbc_pair(text: str) -> Pair:
    """Body and first sentence of a .summary file, each on one line; ``""`` for what it lacks."""
    parts: dict[str, str] = {}
    pieces = text.split("[SN]")
    for name, body in zip(pieces[1::2], pieces[2::2]):
        kept = (line for line in body.splitlines() if line.strip() not in PAGE)
        parts[name] = one_line(" ".join(kept))
    return parts.get("RESTBODY", ""), parts.get("FIRST-SENTENCE", "")


def members(archive: pathlib.Path, end: str) -> Iterator[tuple[str, str]]:
    """Name without ``end`` and text of the files of a .tgz archive that end so, in its order."""
    try:
        with tarfile.open(str(archive)) as files:
            for member in files:
                name = pathlib.PurePosixPath(member.name).name
                stream = files.extractfile(member) if name.endswith(end) else None
                if stream is not None:
                    reader = io.TextIOWrapper(stream, encoding="utf-8", errors="replace")
                    yield name[: -len(end)], reader.read()
    except (tarfile.TarError, EOFError, OSError) as error:
        raise SourceError(f"{archive}: cannot be read ({error}); delete it, fetch again") from error


def url_splits(listed: Sequence[Source], folder: pathlib.Path) -> dict[str, str]:
    """The split of each story by its name, which is the SHA-1 of its address."""
    splits = {}
    for source in listed:
        if source.split in SPLITS:
            for url in read_lines(folder / source.name):
                splits[hashlib.sha1(url.strip().encode("utf-8")).hexdigest()] = source.split
    return splits


def json_splits(listed: Sequence[Source], folder: pathlib.Path) -> dict[str, str]:
    """The split of each BBC article by its number."""
    (path,) = (folder / source.name for source in listed if source.split == "splits")
    lists = json.loads(path.read_text(encoding="utf-8"))
    names = {"train": "train", "validation": "valid", "test": "test"}
    return {str(name): names[split] for split, ids in lists.items() for name in ids}


KINDS = {"cnndm": (url_splits, ".story", story_pair), "xsum": (json_splits, ".summary", bbc_pair)}


def write(table: pathlib.Path, folder: pathlib.Path, out: pathlib.Path, kind: str) -> None:
    """All splits of a corpus, each article once, in the order of the archives."""
    listed, (split_of, end, pair_of) = sources(table), KINDS[kind]
    wanted = split_of(listed, folder)
    counts, empty = dict.fromkeys(SPLITS, 0), 0
    with bar(title=kind, total=len(wanted), unit="article") as shown, ExitStack() as stack:
        files = {
            (split, side): stack.enter_context(replacing(out / f"{split}.{side}", make_folder=True))
            for split in SPLITS
            for side in ("source", "target")
        }
        for archive in dict.fromkeys(s.name for s in listed if s.split == "articles"):
            for name, text in members(folder / archive, end):
                split = wanted.pop(name, None)
                if split is None:
                    continue
                pair = pair_of(text)
                if not all(pair):
                    empty += 1
                    continue
                for side, line in zip(("source", "target"), pair):
                    files[split, side].write(line + "\n")
                counts[split] += 1
                shown.update()
        if not all(counts.values()):
            raise SourceError(f"{folder}: {counts} articles; its lists and archives do not agree")
    logger.info(
        "%s; %d without text or summary, %d of the lists in no archive", counts, empty, len(wanted)
    )
