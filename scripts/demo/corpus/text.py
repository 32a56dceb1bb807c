"""Cleaning, sentence splitting, alignment and pair filters; pure functions over strings.

Throughout, a *pair* is `(english, other)`, two normalised one-line strings.
"""

import html
import re
import unicodedata
from collections.abc import Iterable

Pair = tuple[str, str]

STOP_WORDS: dict[str, frozenset[str]] = {
    "en": frozenset(
        "the of and to in is are for that this with be as it on by or not from can you if an "
        "which will has have when was your at".split()
    ),
    "de": frozenset(
        "der die das und ist in zu den von mit für auf wird nicht eine ein sie werden im oder "
        "kann als dem des sich auch es an wenn aus bei einer sind um diese einen dass".split()
    ),
    # Only a decoy: some German catalogues hold Romanian text by mistake.
    "ro": frozenset(
        "de și să în a la cu este pe nu care o pentru din un se sau că sunt mai fi al acest prin "
        "dacă ale ca această poate în va fost".split()
    ),
}
WORD = re.compile(r"\w+")
TAG = re.compile(r"<[^<>]{1,200}>")
# Markup, addresses and code that no sentence of running text holds.
BAD = re.compile(r"[{}\\|]|https?://|www\.|<|>|\$\(|::\S|==|__|@@|%[0-9]*\$?[a-z]{2,}")
INVISIBLE = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u200b": "", "\u00ad": "", "\ufeff": ""})
CEDILLA_TO_COMMA = str.maketrans("şţŞŢ", "șțȘȚ")
ABBREVIATIONS = frozenset(
    "z.b e.g i.e d.h u.a etc bzw vgl usw ca nr no vs mr dr st inc resp sog evtl ggf inkl exkl "
    "bspw s.a fig cf approx z.b. e.g. i.e. d.h. ex art pag".split()
)
SENTENCE_END = re.compile(r'[.!?]["\'»“”)]?\s+(?=["\'«„“(]?[A-ZÄÖÜĂÂÎȘȚ])')
IDENTIFIER = re.compile(r"[\w.:-]+\(\d\w?\)|\w*[a-z]_[a-z]\w*")
MAX_CHARACTERS = 800
MAX_LENGTH_RATIO = 2.2
MIN_LETTER_SHARE = 0.75
MAX_COPIED_SHARE = 0.7


def normalise(text: str) -> str:
    """NFC, no invisible characters, single spaces; Romanian cedillas become commas below."""
    text = unicodedata.normalize("NFC", text).translate(INVISIBLE).translate(CEDILLA_TO_COMMA)
    return re.sub(r"\s+", " ", text).strip()


def strip_markup(text: str) -> str:
    """Drop tags, also those that were escaped as entities."""
    return TAG.sub("", html.unescape(TAG.sub("", text)))


def letter_share(text: str) -> float:
    """Share of the characters of a non-empty text that are letters or blanks."""
    return sum(c.isalpha() or c == " " for c in text) / len(text)


def looks_like(text: str, language: str) -> bool:
    """False if a text of six or more words has clearly more stop words of another language."""
    words = [word.lower() for word in WORD.findall(text)]
    if len(words) < 6:
        return True
    score = {name: sum(w in stops for w in words) for name, stops in STOP_WORDS.items()}
    mine = score.pop(language)
    other = max(score.values())
    return mine >= other or (mine >= 2 and other - mine <= 1)


def _lengths_disagree(a: str, b: str) -> bool:
    return (max(len(a), len(b)) + 10) / (min(len(a), len(b)) + 10) > MAX_LENGTH_RATIO


def _identifiers_disagree(a: str, b: str) -> bool:
    in_a, in_b = set(IDENTIFIER.findall(a)), set(IDENTIFIER.findall(b))
    return bool(in_a and in_b and not in_a & in_b)


def _untranslated(a: str, b: str) -> bool:
    source: set[str] = {word.lower() for word in WORD.findall(a)}
    target = [word.lower() for word in WORD.findall(b)]
    return len(target) >= 5 and sum(w in source for w in target) / len(target) > MAX_COPIED_SHARE


def is_good_pair(a: str, b: str, language: str, max_words: int = 100) -> bool:
    """True if English `a` and `b` in `language` look like clean translations of each other."""
    if not a or not b or a.lower() == b.lower() or BAD.search(a) or BAD.search(b):
        return False
    words_a, words_b = len(a.split()), len(b.split())
    if not 1 <= words_a <= max_words or words_b > max_words:
        return False
    if max(len(a), len(b)) > MAX_CHARACTERS or _lengths_disagree(a, b):
        return False
    if letter_share(a) < MIN_LETTER_SHARE or letter_share(b) < MIN_LETTER_SHARE:
        return False
    if not re.search(r"[A-Za-z]{2}", a) or not re.search(r"[^\W\d_]{2}", b):
        return False
    # Numbers must agree in any order: a cheap check of the alignment.
    if words_a >= 4 and sorted(re.findall(r"\d+", a)) != sorted(re.findall(r"\d+", b)):
        return False
    if _identifiers_disagree(a, b) or _untranslated(a, b):
        return False
    return looks_like(a, "en") and looks_like(b, language)


def _ends_in_abbreviation(text: str) -> bool:
    """True if the text before a full stop ends in an abbreviation, an initial or an ordinal."""
    words = text.split()
    tail = words[-1].lower().lstrip('(„"') if words else ""
    return (
        tail in ABBREVIATIONS
        or len(tail) == 1
        or re.fullmatch(r"\d{1,2}", tail) is not None
        or re.fullmatch(r"(\w\.)+\w?", tail) is not None
    )


def split_sentences(text: str) -> list[str]:
    """Split after `.!?` before a capital, conservatively: doubt leaves sentences joined."""
    sentences, start = [], 0
    for match in SENTENCE_END.finditer(text):
        if text[match.start()] == "." and _ends_in_abbreviation(text[start : match.start()]):
            continue
        sentences.append(text[start : match.end()].strip())
        start = match.end()
    sentences.append(text[start:].strip())
    return [sentence for sentence in sentences if sentence]


def align_paragraphs(a: str, b: str) -> list[Pair]:
    """Sentence pairs if both sides split alike, else the two paragraphs as one pair."""
    split_a, split_b = split_sentences(a), split_sentences(b)
    if len(split_a) != len(split_b) or len(split_a) == 1:
        return [(a, b)]
    for x, y in zip(split_a, split_b):
        if (max(len(x), len(y)) + 15) / (min(len(x), len(y)) + 15) > MAX_LENGTH_RATIO:
            return [(a, b)]
    return list(zip(split_a, split_b))


def near_key(text: str) -> str:
    """What two near-duplicate sentences share: lower-case ASCII letters, word by word."""
    return re.sub(r"[^a-z]+", " ", text.lower()).strip()


def word_counts(pairs: Iterable[Pair]) -> tuple[int, int]:
    """Words on each side."""
    left = right = 0
    for a, b in pairs:
        left += len(a.split())
        right += len(b.split())
    return left, right
