"""The M2 format: sentences with the edits of one or several annotators."""

from typing import NamedTuple

from text_files import read_lines

NOTHING = "-NONE-"


class Edit(NamedTuple):
    """A span of source tokens and what may replace it."""

    start: int
    end: int
    corrections: tuple[str, ...]  # alternatives, tokens between blanks; "" is a deletion


class Sentence(NamedTuple):
    """A tokenised source and, by annotator, the edits in the order of their spans."""

    source: tuple[str, ...]
    edits: dict[int, tuple[Edit, ...]]


def read(path: str) -> list[Sentence]:
    """The sentences of a file, see :func:`parse`."""
    return parse("\n".join(read_lines(path)), path)


def parse(text: str, name: str = "M2") -> list[Sentence]:
    """The sentences of an M2 file.

    ``S`` lines hold a source, ``A start end|||type|||correction||correction|||...|||annotator``
    lines its edits; a ``noop`` edit, or one at ``-1 -1``, means that its annotator changed nothing.
    A sentence without any ``A`` line has one annotator, who changed nothing.
    """
    sentences: list[Sentence] = []
    for number, line in enumerate(text.split("\n"), 1):
        line = line.rstrip()
        if line.startswith("S ") or line == "S":
            sentences.append(Sentence(tuple(line[2:].split()), {}))
        elif line.startswith("A "):
            if not sentences:
                raise ValueError(f"{name}, line {number}: an A line before any S line")
            _add(sentences[-1], line[2:], f"{name}, line {number}")
        elif line.strip():
            raise ValueError(f"{name}, line {number}: expected 'S ...' or 'A ...': {line[:60]}")
    return [
        Sentence(
            sentence.source,
            {
                annotator: tuple(sorted(edits, key=lambda edit: (edit.start, edit.end)))
                for annotator, edits in (sentence.edits or {0: ()}).items()
            },
        )
        for sentence in sentences
    ]


def _add(sentence: Sentence, line: str, where: str) -> None:
    fields = line.split("|||")
    try:
        start, end = map(int, fields[0].split())
        annotator = int(fields[5])
    except (ValueError, IndexError) as error:
        raise ValueError(
            f"{where}: expected 'A start end|||type|||correction|||...|||...|||annotator'"
        ) from error
    mine = sentence.edits.setdefault(annotator, ())
    if fields[1] == "noop" or start < 0 or end < 0:
        return
    if not start <= end <= len(sentence.source):
        raise ValueError(
            f"{where}: span {start} {end} is outside of its {len(sentence.source)} tokens"
        )
    texts = (" ".join(text.split()) for text in fields[2].split("||"))
    corrections = tuple("" if text == NOTHING else text for text in texts)
    sentence.edits[annotator] = (*mine, Edit(start, end, corrections))
