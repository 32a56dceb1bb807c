"""Inject learner-like errors into clean English; misspellings are real ones, from codespell."""

import collections
import random
import re
from collections.abc import Callable, Iterable, Sequence

from noise import like_case

Edits = dict[int, str]  # token index -> replacement
TOKEN = re.compile(r"[A-Za-z]+(?:['’][a-z]+)?|\d[\d.,]*|\s+|[^\w\s]|\w+")
CONFUSED = (
    "its it's|their there they're|then than|to too|your you're|lose loose|affect effect|of off|"
    "were where|which witch|this these|that those|is are|was were|has have|does do|a an|who whom|"
    "less fewer|much many|quite quiet|accept except|advice advise|principal principle|"
    "whether weather|passed past|other others|every each"
)
PREPOSITIONS = ("in", "on", "at", "for", "to", "of", "with", "by", "from", "into", "about")
ARTICLES = ("a", "an", "the")
# How many errors a sentence gets, and how often: 15 of 100 stay clean.
ERROR_COUNTS = (0, 1, 2, 3, 4)
ERROR_WEIGHTS = (15, 35, 28, 15, 7)
MAX_TRIES = 40
MIN_WORDS = 4
SHORT_SENTENCE, SHORT_MAX_ERRORS = 8, 2
MIN_FORM_COUNT = 5


def parse_misspellings(dictionary: str) -> dict[str, list[str]]:
    """Word -> its misspellings, from codespell's `wrong->right` lines with one correction."""
    misspellings: dict[str, list[str]] = collections.defaultdict(list)
    for line in dictionary.splitlines():
        if "->" not in line or line.startswith("#"):
            continue
        wrong, right = line.strip().split("->", 1)
        corrections = [word.strip() for word in right.rstrip(",").split(",") if word.strip()]
        if len(corrections) == 1 and " " not in corrections[0] and " " not in wrong:
            misspellings[corrections[0]].append(wrong)
    return dict(misspellings)


def count_words(sentences: Iterable[str]) -> dict[str, int]:
    """Lower-case alphabetic words and how often they occur."""
    return collections.Counter(
        token.lower() for line in sentences for token in TOKEN.findall(line) if token.isalpha()
    )


def inflections(word: str, vocabulary: dict[str, int]) -> list[str]:
    """Other forms of a word by suffix rules, as far as the vocabulary has seen them."""
    forms: set[str] = set()
    if word.endswith("ies"):
        forms.add(word[:-3] + "y")
    if word.endswith("s"):
        forms |= {word[:-1], word[:-2]}
    else:
        forms |= {word + "s", word + "es", word[:-1] + "ies" if word.endswith("y") else ""}
    bases = {word}
    for suffix, endings in (("s", ("",)), ("ed", ("", "e")), ("ing", ("", "e"))):
        if word.endswith(suffix):
            bases |= {word[: -len(suffix)] + ending for ending in endings}
    for base in bases:
        if len(base) >= 3:
            forms |= {base, base + "ed", base + "ing"}
            if base.endswith("e"):
                forms |= {base + "d", base[:-1] + "ing"}
    return sorted(
        form
        for form in forms
        if len(form) >= 3 and form != word and vocabulary.get(form, 0) >= MIN_FORM_COUNT
    )


class ErrorInjector:
    """Turns clean sentences into faulty ones. ``seed``: fixes every draw; the result depends on the
    order of the calls."""

    def __init__(
        self, misspellings: dict[str, list[str]], vocabulary: dict[str, int], seed: int
    ) -> None:
        self._misspellings = misspellings
        self._vocabulary = vocabulary
        self._random = random.Random(seed)
        self._confused: dict[str, list[str]] = {}
        for group in CONFUSED.split("|"):
            for word in group.split():
                # A word of two groups keeps the later one.
                self._confused[word] = [other for other in group.split() if other != word]
        # Upper bounds of one uniform draw.
        self._kinds: Sequence[tuple[float, Callable[[list[str], int, set[int]], Edits]]] = (
            (0.22, self._misspell), (0.36, self._article), (0.50, self._preposition),
            (0.62, self._confuse), (0.82, self._inflect), (0.90, self._comma),
            (0.94, self._capital), (0.97, self._swap), (1.00, self._drop_or_repeat),
        )  # fmt: skip

    def inject(self, sentence: str) -> str:
        """The sentence with zero to four errors; sentences under four words stay as they are."""
        tokens: list[str] = TOKEN.findall(sentence)
        words = [i for i, token in enumerate(tokens) if token[0].isalpha()]
        if len(words) < MIN_WORDS:
            return sentence
        wanted = self._random.choices(ERROR_COUNTS, ERROR_WEIGHTS)[0]
        if len(words) < SHORT_SENTENCE:
            wanted = min(wanted, SHORT_MAX_ERRORS)
        used: set[int] = set()
        done = tries = 0
        while done < wanted and tries < MAX_TRIES:
            tries += 1
            index = self._random.choice(words)
            if index in used or not tokens[index]:
                continue
            draw = self._random.random()
            kind = next(method for bound, method in self._kinds if draw < bound)
            edits = kind(tokens, index, used)
            if not edits or edits == {index: tokens[index]}:
                continue
            for position, text in edits.items():
                tokens[position] = text
            used |= set(edits)
            done += 1
        joined = re.sub(r"\s+([.,;:!?])", r"\1", "".join(tokens))
        return re.sub(r" +", " ", joined).strip()

    def _misspell(self, tokens: list[str], index: int, used: set[int]) -> Edits:
        word, pick = tokens[index], self._random
        if word.lower() in self._misspellings and (word.islower() or word.istitle()):
            return {index: like_case(word, pick.choice(self._misspellings[word.lower()]))}
        if len(word) >= 5 and word.isalpha() and not word.isupper() and pick.random() < 0.25:
            j = pick.randrange(1, len(word) - 1)
            dropped = word[:j] + word[j + 1 :]
            swapped = word[:j] + word[j + 1] + word[j] + word[j + 2 :]
            doubled = word[:j] + word[j] + word[j:]
            return {index: pick.choice([dropped, swapped, doubled])}
        return {}

    def _article(self, tokens: list[str], index: int, used: set[int]) -> Edits:
        word = tokens[index]
        if word.lower() in ARTICLES:
            others = [article for article in ARTICLES if article != word.lower()]
            return {index: self._random.choice(["", "", "", *others])}
        if index + 1 < len(tokens) and self._random.random() < 0.06:
            return {index: self._random.choice(ARTICLES) + " " + word}
        return {}

    def _preposition(self, tokens: list[str], index: int, used: set[int]) -> Edits:
        word = tokens[index].lower()
        if word not in PREPOSITIONS:
            return {}
        others = [preposition for preposition in PREPOSITIONS if preposition != word]
        return {index: self._random.choice(["", "", *others])}

    def _confuse(self, tokens: list[str], index: int, used: set[int]) -> Edits:
        word = tokens[index]
        others = self._confused.get(word.lower())
        return {index: like_case(word, self._random.choice(others))} if others else {}

    def _inflect(self, tokens: list[str], index: int, used: set[int]) -> Edits:
        word = tokens[index].lower()
        if not word.isalpha() or len(word) <= 3:
            return {}
        forms = inflections(word, self._vocabulary)
        return {index: like_case(tokens[index], self._random.choice(forms))} if forms else {}

    def _comma(self, tokens: list[str], index: int, used: set[int]) -> Edits:
        commas = [i for i, token in enumerate(tokens) if token == ","]
        if commas and self._random.random() < 0.7:
            comma = self._random.choice(commas)
            return {} if comma in used else {comma: ""}
        followed = index + 1 < len(tokens) and tokens[index + 1].isspace()
        if followed and self._random.random() < 0.3:
            return {index: tokens[index] + ","}
        return {}

    def _capital(self, tokens: list[str], index: int, used: set[int]) -> Edits:
        word = tokens[index]
        if word[0].isupper():
            return {index: word.lower()}
        return {index: word.capitalize()} if self._random.random() < 0.2 else {}

    def _swap(self, tokens: list[str], index: int, used: set[int]) -> Edits:
        following = index + 2
        if following >= len(tokens) or following in used or not tokens[index + 1].isspace():
            return {}
        word, other = tokens[index], tokens[following]
        if not other[:1].isalpha() or len(word) + len(other) >= 16 or self._random.random() >= 0.5:
            return {}
        return {index: other, following: word}

    def _drop_or_repeat(self, tokens: list[str], index: int, used: set[int]) -> Edits:
        if self._random.random() < 0.4:
            return {index: ""}
        if self._random.random() < 0.4:
            return {index: tokens[index] + " " + tokens[index]}
        return {}
