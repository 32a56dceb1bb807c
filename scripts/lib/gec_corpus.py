"""Corrected text -> PREFIX.src and PREFIX.tgt, tokens between blanks, and a gold file for scorers.

An input is an .m2 file, whose first annotator corrects, or the prefix of a .src and a .tgt file.
Pairs with an empty side are left out, but not of a test set (``gold``): there each line counts.
The gold of a .src and a .tgt file has the edits of difflib: good enough to try a recipe with.
"""

import difflib
import logging
import pathlib
from collections.abc import Iterator, Sequence

import m2
from m2 import Sentence
from text_files import read_lines, write_lines

logger = logging.getLogger("gec_corpus")
Pair = tuple[str, str]


def corrected(sentence: Sentence) -> str:
    """The source with the edits of its first annotator, each with its first correction."""
    tokens = list(sentence.source)
    edits = sentence.edits[min(sentence.edits)]
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end), reverse=True):
        tokens[edit.start : edit.end] = edit.corrections[0].split()
    return " ".join(tokens)


def to_m2(pair: Pair) -> str:
    """One sentence of a gold file, with the plainest edits between the two sides."""
    source, target = (text.split() for text in pair)
    lines = ["S " + " ".join(source)]
    matcher = difflib.SequenceMatcher(None, source, target, autojunk=False)
    for kind, i, k, j, m in matcher.get_opcodes():
        if kind != "equal":
            text = " ".join(target[j:m]) or "-NONE-"
            lines.append(f"A {i} {k}|||UNK|||{text}|||REQUIRED|||-NONE-|||0")
    if len(lines) == 1:
        lines.append("A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0")
    return "\n".join(lines) + "\n"


def to_characters(text: str) -> str:
    """Every character beyond ASCII is a token, as subwords of Chinese begin from."""
    return " ".join("".join(c if ord(c) < 128 else f" {c} " for c in text).split())


def read(path: str) -> Iterator[Pair]:
    """The pairs of one input."""
    if path.endswith(".m2"):
        for sentence in m2.read(path):
            yield " ".join(sentence.source), corrected(sentence)
        return
    source, target = (read_lines(f"{path}.{side}") for side in ("src", "tgt"))
    if len(source) != len(target):
        raise ValueError(f"{path}: {len(source)} lines of .src, {len(target)} of .tgt")
    for pair in zip(source, target):
        yield " ".join(pair[0].split()), " ".join(pair[1].split())


def read_pairs(path: str, keep_all: bool) -> list[Pair]:
    """The pairs of a corpus; without ``keep_all`` those that have both sides."""
    kept = [pair for pair in read(path) if keep_all or all(pair)]
    changed = sum(source != target for source, target in kept)
    logger.info("%s: %d pairs, %d with errors", path, len(kept), changed)
    return kept


def write(
    prefix: str, inputs: Sequence[str], gold: pathlib.Path | None = None, characters: bool = False
) -> None:
    """Write the pairs of corpora.

    Args:
        inputs: .m2 files, or prefixes of a .src and a .tgt file.
        gold: gold file to write, of one input; then every line counts.
        characters: each character beyond ASCII is a token.
    """
    pairs = [pair for path in inputs for pair in read_pairs(path, bool(gold))]
    if not pairs:
        raise ValueError(f"{', '.join(inputs)}: hold no pair")
    if gold and inputs[0].endswith(".m2"):
        write_lines(gold, read_lines(inputs[0]))
    elif gold:
        write_lines(gold, map(to_m2, pairs))
    for side, name in enumerate(("src", "tgt")):
        lines = (to_characters(pair[side]) if characters else pair[side] for pair in pairs)
        write_lines(f"{prefix}.{name}", lines)
