"""Fetched archives -> raw parallel text: {train,valid,test}.{source,target}, one sentence a line.

Reads plain text and the ``<seg>`` lines of SGML and XML test sets, out of .tgz and .zip archives,
as a recipe lists under ``sources``. Training text is cleaned as in the recipes that the papers
build on: punctuation and control characters normalised (Moses), pairs dropped that are empty,
longer than 250 words or more than 1.5 times as long on one side. Without ``diacritics`` Romanian
loses its own (both encodings of s and t with a comma), as in the corpus of Lee et al. 2018.
Validation and test text keeps every line.
"""

import contextlib
import html
import io
import logging
import pathlib
import re
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import IO

from fetch import SourceError
from recipe_file import Source, sources
from sacremoses import MosesPunctNormalizer
from text_files import read_lines, write_lines

from fairseq_specdec.io.atomic import replacing
from fairseq_specdec.io.progress import erased_bar as bar

logger = logging.getLogger("parallel_text")
SEGMENT = re.compile(r"<seg[^>]*>\s*(.*?)\s*</seg>")
MARKUP = re.compile(r"\s*<[^>]+>")
MAX_WORDS = 250
MAX_RATIO = 1.5
DIACRITICS = str.maketrans("ăâîșțşţĂÂÎȘȚŞŢ", "aaiststAAISTST")

# What a file that is cut off or damaged raises, where it is unpacked.
BROKEN = (EOFError, OSError, tarfile.TarError, zipfile.BadZipFile, zlib.error)

Normaliser = Callable[[str], str]


def broken(name: str, error: Exception) -> SourceError:
    """The error of an archive that cannot be unpacked."""
    return SourceError(f"{name}: cannot be read ({error}); delete its archive and fetch it again")


def open_member(archive: pathlib.Path, member: str) -> IO[bytes]:
    """A file of a .tgz or .zip archive."""
    try:
        if zipfile.is_zipfile(archive):
            return zipfile.ZipFile(archive).open(member)
        stream = tarfile.open(archive).extractfile(member)
    except KeyError as error:
        raise SourceError(f"{archive}: holds no {member} ({error}); see its recipe") from error
    except BROKEN as error:
        raise broken(str(archive), error) from error
    if stream is None:
        raise SourceError(f"{archive}: {member} is no file; see its recipe")
    return stream


def sentences(stream: IO[bytes], name: str) -> Iterator[str]:
    """Sentences of a file: ``<seg>`` lines of SGML and XML, else every line.

    Training files of IWSLT are plain but for lines of markup, which are left out.
    """
    marked = name.endswith((".sgm", ".xml"))
    tagged = "train.tags." in name
    # Only a line feed ends a line: Europarl holds other line separators within sentences.
    try:
        for line in io.TextIOWrapper(stream, encoding="utf-8", newline="\n"):
            line = line.strip()
            if marked:
                segment = SEGMENT.search(line)
                if segment:
                    yield html.unescape(segment.group(1)).strip()
            elif not (tagged and MARKUP.match(line)):
                yield line
    except BROKEN as error:
        raise broken(name, error) from error


def one_line(text: str) -> str:
    """Without control characters (Unicode categories C*), every run of white space one space."""
    spaced = (" " if c.isspace() else c for c in text)
    return blanks("".join(c for c in spaced if not unicodedata.category(c).startswith("C")))


def good_pair(source: str, target: str) -> bool:
    """Whether a training pair is kept: see the head of this module."""
    sizes = sorted((len(source.split()), len(target.split())))
    return 1 <= sizes[0] and sizes[1] <= MAX_WORDS and sizes[1] <= MAX_RATIO * sizes[0]


def normaliser(language: str, training: bool, diacritics: bool) -> Normaliser:
    """What becomes of each sentence of one side."""
    punctuation = MosesPunctNormalizer(language)

    def apply(text: str) -> str:
        text = one_line(punctuation.normalize(text) if training else text.replace("’", "'"))
        if diacritics or language != "ro":
            return text
        return unicodedata.normalize("NFC", text).translate(DIACRITICS)

    return apply


def blanks(text: str) -> str:
    """Every run of white space one space."""
    return " ".join(text.split())


def splits(table: pathlib.Path) -> Iterator[tuple[str, list[Source]]]:
    """The sources of training, validation and test text."""
    listed = sources(table)
    for split in ("train", "valid", "test"):
        yield split, [source for source in listed if source.split == split]


def pairs(source: Source, archives: pathlib.Path) -> Iterator[tuple[str, str]]:
    """The sentence pairs of one source."""
    with contextlib.ExitStack() as stack:
        sides = []
        for member in source.files:
            stream = stack.enter_context(open_member(archives / source.name, member))
            sides.append(sentences(stream, member))
        left, right = sides
        for one in left:
            other = next(right, None)
            if other is None:
                raise SourceError(f"{source.url}: {source.files[1]} is shorter than its partner")
            yield one, other
        if next(right, None) is not None:
            raise SourceError(f"{source.url}: {source.files[1]} is longer than its partner")


def write_split(
    chosen: Sequence[Source],
    archives: pathlib.Path,
    paths: Sequence[pathlib.Path],
    clean: Sequence[Normaliser],
    good: Callable[[str, str], bool] | None,
) -> None:
    """Write the pairs of a split that are good when they are clean (``None``: all), a file a
    side."""
    kept = dropped = 0
    with bar(title=paths[0].name, unit="pair") as shown, contextlib.ExitStack() as stack:
        files = [stack.enter_context(replacing(path, make_folder=True)) for path in paths]
        for pair in (pair for source in chosen for pair in pairs(source, archives)):
            shown.update()
            texts = [change(text) for change, text in zip(clean, pair)]
            if good and not good(*texts):
                dropped += 1
                continue
            kept += 1
            for file, text in zip(files, texts):
                file.write(text + "\n")
    logger.info("%s: %d pairs, %d dropped", paths[0].stem, kept, dropped)


def write(
    table: pathlib.Path,
    archives: pathlib.Path,
    out: pathlib.Path,
    pair: Sequence[str],
    diacritics: bool = True,
) -> None:
    """Write the splits that are not there. ``diacritics``: whether Romanian keeps its own."""
    for split, chosen in splits(table):
        paths = [out / f"{split}.{side}" for side in pair]
        if not all(path.exists() for path in paths):
            training = split == "train"
            clean = [normaliser(side, training, diacritics) for side in pair]
            write_split(chosen, archives, paths, clean, good_pair if training else None)


def write_tokenised(
    table: pathlib.Path, archives: pathlib.Path, out: pathlib.Path, pair: Sequence[str]
) -> None:
    """Write ``SPLIT.tok.SIDE`` of text that is tokenised already, but for training pairs with an
    empty side; and ``reference.0`` and so on of the test set, the rows of the split ``reference``.
    """
    for split, chosen in splits(table):
        paths = [out / f"{split}.tok.{side}" for side in pair]
        good = (lambda *sides: all(sides)) if split == "train" else None
        write_split(chosen, archives, paths, [blanks, blanks], good)
    count = len(read_lines(out / f"test.tok.{pair[0]}"))
    references = [source for source in sources(table) if source.split == "reference"]
    for number, source in enumerate(references):
        lines = [blanks(line) for line in read_lines(archives / source.name)]
        if len(lines) != count:
            raise SourceError(f"{source.url}: {len(lines)} lines, the test set has {count}")
        write_lines(out / f"reference.{number}", lines)
