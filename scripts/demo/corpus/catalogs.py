"""gettext catalogues (.mo): program messages and their translations."""

import pathlib
import re
import struct
from collections.abc import Iterable, Iterator

from .libreoffice import walk_files
from .text import Pair, align_paragraphs, is_good_pair, normalise, strip_markup

Entry = tuple[list[str], list[str]]  # msgid and its plural; msgstr of each plural form
LITTLE_ENDIAN, BIG_ENDIAN = 0x950412DE, 0xDE120495
MAX_MESSAGE = 6000
PLACEHOLDER = re.compile(
    r"%(?:\([\w.]+\))?(?:\d+\$)?[-+#0]*\d*(?:\.\d+)?(?:l{0,2}|z|h|j|t|P)[sdiufgcxXpqmRL](?![a-z])"
    r"|%\d+|%L\d+|\{\d*\}|\{\w+\}|\$\[\w+\]|%[A-Z]\w+%?|\$\w+"
)
MAX_PLACEHOLDERS = 2
ACCELERATOR = re.compile(r"(?<![\w&~])[~&_](?=\w)|(?<=\w)[~&_](?=\w)")


def read_mo(data: bytes) -> Iterator[Entry]:
    """Entries of a binary catalogue; entries outside the declared charset are left out."""
    if len(data) < 28:
        raise ValueError("shorter than the header of a gettext catalogue")
    magic = struct.unpack("<I", data[:4])[0]
    if magic not in (LITTLE_ENDIAN, BIG_ENDIAN):
        raise ValueError("no gettext catalogue: wrong magic number")
    order = "<" if magic == LITTLE_ENDIAN else ">"
    _, count, originals, translations = struct.unpack(order + "IIII", data[4:20])
    if max(originals, translations) + 8 * count > len(data):
        raise ValueError("truncated gettext catalogue")
    charset = "utf-8"
    for index in range(count):
        size, start = struct.unpack_from(order + "II", data, originals + 8 * index)
        key = data[start : start + size]
        size, start = struct.unpack_from(order + "II", data, translations + 8 * index)
        value = data[start : start + size]
        if not key:  # the header entry
            declared = re.search(rb"charset=([\w-]+)", value)
            charset = declared.group(1).decode("ascii") if declared else charset
            continue
        try:
            msgid, msgstr = key.decode(charset), value.decode(charset)
        except (UnicodeDecodeError, LookupError):
            continue
        yield msgid.split("\x04", 1)[-1].split("\0"), msgstr.split("\0")


def clean_message(text: str) -> str:
    """Drop contexts, markup and bracketed accelerators of a user-interface message."""
    text = re.sub(r"^_:[^\n]*\n", "", text)  # KDE 3 context
    if re.match(r"^[A-Za-z0-9]{1,10}\|\S", text):  # context|message
        text = re.sub(r"^(?:ACTION|[A-Za-z]{1,10})\|", "", text)
    text = re.sub(r"\((?:&|_|~)\w\)", "", strip_markup(text))
    return re.sub(r"[BI]<([^<>]*)>", r"\1", text)


def drop_accelerators(text: str) -> str:
    """`_File` and `&File` become `File`."""
    return ACCELERATOR.sub("", text)


def paragraphs(text: str) -> list[str]:
    """Paragraphs between empty lines, each on one line."""
    joined = (re.sub(r"\s*\n\s*", " ", part) for part in re.split(r"\n\s*\n", text.strip()))
    return [part for part in joined if part.strip()]


def entry_pairs(originals: list[str], translations: list[str]) -> Iterator[Pair]:
    """Sentence pairs of one entry: the singular, and the plural where both sides have one."""
    if not translations or not translations[0]:
        return
    for a, b in list(zip(originals, translations))[:2]:
        if len(a) > MAX_MESSAGE:
            continue
        a, b = clean_message(a), clean_message(b)
        ours, theirs = paragraphs(a), paragraphs(b)
        if len(ours) != len(theirs):
            ours, theirs = ([re.sub(r"\s*\n\s*", " ", side)] for side in (a, b))
        for x, y in zip(ours, theirs):
            yield from align_paragraphs(
                normalise(drop_accelerators(x)), normalise(drop_accelerators(y))
            )


def is_good(a: str, b: str, language: str) -> bool:
    """`is_good_pair` with placeholders set aside; they must agree, and be two at most."""
    ours, theirs = sorted(PLACEHOLDER.findall(a)), sorted(PLACEHOLDER.findall(b))
    if len(ours) > MAX_PLACEHOLDERS or ours != theirs:
        return False
    return is_good_pair(PLACEHOLDER.sub("X", a), PLACEHOLDER.sub("X", b), language)


def find_catalogs(roots: Iterable[pathlib.Path], language: str) -> Iterator[pathlib.Path]:
    """Catalogues of one language: by their folder (de/LC_MESSAGES) or their name (x_de.mo)."""
    names = {language, f"{language}_{language.upper()}"}
    named = re.compile(rf"[-_.]({'|'.join(sorted(names))})$")
    for root in roots:
        for path in walk_files(root, (".mo", ".gmo")):
            if names & set(path.parts) or path.stem in names or named.search(path.stem):
                yield path


def collect(roots: Iterable[pathlib.Path], language: str) -> list[Pair]:
    """Pairs of every catalogue below `roots`."""
    pairs: list[Pair] = []
    for path in find_catalogs(roots, language):
        try:
            for originals, translations in read_mo(path.read_bytes()):
                pairs += entry_pairs(originals, translations)
        except ValueError as error:
            raise ValueError(f"{path}: {error}; delete its unpacked folder and retry") from error
    return pairs
