"""Output as text, and its BLEU."""

import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import torch
from sacrebleu.metrics import BLEU

# --post-process and --bpe values that give text as it was before any tokenisation.
RAW_TEXT = ("sentencepiece", "gpt2", "byte_bpe", "bytes", "characters")
HYPHEN = re.compile(r"(\S)-(\S)")


def split_compounds(text: str) -> str:
    """Tokenised text in which every hyphen between two characters stands alone, as papers that
    follow Vaswani et al. 2017 score WMT14 English-German."""
    return HYPHEN.sub(r"\1 ##AT##-##AT## \2", text)


class Quality(NamedTuple):
    """BLEU by system's name, the percentage of outputs that are the reference, BLEU with compounds
    split on both sides (None where the text is not tokenised), on what text, in words, and
    sacrebleu's signature."""

    score: dict[str, float]
    exact: dict[str, float]
    compound: dict[str, float] | None
    on: str
    signature: str


class Texts:
    """Tokens to text as fairseq-generate's D lines have it. ``hidden``: tokens that are left
    out."""

    def __init__(self, task: Any, config: Any, hidden: Collection[int] = ()) -> None:
        self.hidden = set(hidden)
        self.dictionary = task.target_dictionary
        self.tokenizer = task.build_tokenizer(config.tokenizer)
        self.bpe = task.build_bpe(config.bpe)
        self.post_process = config.common_eval.post_process
        known = (self.post_process, getattr(config.bpe, "_name", None))
        raw = any(name in RAW_TEXT for name in known)
        self.tokenised = self.tokenizer is None and not raw
        if not self.tokenised:
            self.kind = "detokenised text"
        elif self.post_process or self.bpe is not None:
            self.kind = "tokenised text, subwords joined"
        else:
            self.kind = "the dictionary's own tokens (no --post-process)"

    def __call__(self, tokens: list[int], reference: bool = False) -> str:
        """One sentence; an unknown word of a reference is marked, so that it matches nothing."""
        text = self.dictionary.string(
            torch.tensor(tokens), self.post_process, reference, self.hidden
        )
        if self.bpe is not None:
            text = self.bpe.decode(text)
        if self.tokenizer is not None:
            text = self.tokenizer.decode(text)
        return str(text)

    def quality(self, systems: list[Any], data: Any) -> Quality | None:
        """BLEU against the references in the data; None where it holds none."""
        numbers = sorted(systems[0].tokens)
        wanted = self.references(data, numbers)
        if wanted is None:
            return None
        bleu, score, exact, compound = self._bleu(), {}, {}, {}
        split = list(map(split_compounds, wanted))
        for system in systems:
            outputs = [self(system.tokens[n]) for n in numbers]
            score[system.name] = float(bleu.corpus_score(outputs, [wanted]).score)
            exact[system.name] = 100.0 * sum(map(str.__eq__, outputs, wanted)) / len(wanted)
            outputs = list(map(split_compounds, outputs))
            compound[system.name] = float(bleu.corpus_score(outputs, [split]).score)
        signature = str(bleu.get_signature())
        return Quality(score, exact, compound if self.tokenised else None, self.kind, signature)

    def _bleu(self) -> BLEU:
        return BLEU(tokenize="none" if self.tokenised else "13a", force=True)

    def references(self, data: Any, numbers: Sequence[int]) -> list[str] | None:
        """The references of these sentences, what the dictionary lacks marked; None without any."""
        if getattr(data, "tgt", None) is None:
            return None
        return [self([int(t) for t in data.tgt[n]], reference=True) for n in numbers]

    def scores(self, outputs: Sequence[list[int]], references: Sequence[str]) -> list[Any]:
        """sacrebleu's ``BLEUScore`` of each sentence: token ids against a reference text. Its
        ``counts`` (of runs of 1 to 4 words that are in the reference too), ``sys_len`` and
        ``ref_len``, summed over sentences, give the corpus's."""
        bleu = self._bleu()
        return [bleu.corpus_score([self(o)], [[r]]) for o, r in zip(outputs, references)]
