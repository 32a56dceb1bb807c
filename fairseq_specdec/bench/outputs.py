"""Outputs: whether two systems have the same, and as text with its BLEU."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from fairseq.data import LanguagePairDataset
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig
from sacrebleu.metrics import BLEU

Figures = dict[str, Any]
"""Figures by name, ready for JSON."""
Hypothesis = dict[str, Any]
"""As fairseq's generators return it."""

# Running totals of log-probabilities that are closer are a near-tie: in fp32 rounding may rank them
# either way.
NEAR = 2e-5
# A lossless system's totals may differ by so much, relative to totals above 1.
TOLERANCE = 1e-4


class Output(NamedTuple):
    """A hypothesis: its tokens, </s> included, the log-probability of the first 1, 2, ... of them,
    and what it is ranked by; None where the engine does not report it."""

    tokens: list[int]
    totals: list[float] | None = None
    score: float | None = None


def output_of(hypothesis: Hypothesis) -> Output:
    """What fairseq's dictionary of a hypothesis holds."""
    tokens = hypothesis["tokens"].tolist()
    if "score" not in hypothesis:
        return Output(tokens)
    totals = hypothesis["positional_scores"].double().cumsum(0).tolist()
    return Output(tokens, totals, float(hypothesis["score"]))


class Comparison(NamedTuple):
    """One sentence's hypotheses of two systems, compared."""

    same: bool  # the hypotheses have the same tokens, in one order
    near_tie: bool  # they do not, and two that part came within ``NEAR`` of one another
    away: float  # largest difference of their totals, relative to totals above 1


def compare(mine: Sequence[Output], theirs: Sequence[Output], count: int) -> Comparison:
    """The first ``count`` hypotheses of a sentence; 1 of an engine that reports no scores."""
    if mine[0].totals is None:
        count = 1
    pairs = list(zip(mine[:count], theirs[:count]))
    parted = [pair for pair in pairs if pair[0].tokens != pair[1].tokens]
    if parted or len(mine[:count]) != len(theirs[:count]):
        near = any(_near(one[0], other[1]) for one in parted for other in parted)
        return Comparison(False, near, 0.0)
    totals = [(a.totals[-1], b.totals[-1]) for a, b in pairs if a.totals and b.totals]
    away = max((abs(a - b) / max(1, abs(b)) for a, b in totals), default=0.0)
    return Comparison(True, False, away)


def _near(one: Output, other: Output) -> bool:
    """Whether two hypotheses come close at a step after they part, or in their rank."""
    if one.totals is None or other.totals is None or one.tokens == other.tokens:
        return False
    at = next((i for i, (a, b) in enumerate(zip(one.tokens, other.tokens)) if a != b), 0)
    pairs = [*zip(one.totals[at:], other.totals[at:]), (one.score, other.score)]
    return any(abs(a - b) < NEAR for a, b in pairs)  # type: ignore[operator]


# --post-process and --bpe values that give text as it was before any tokenisation.
RAW_TEXT = ("sentencepiece", "gpt2", "byte_bpe", "bytes", "characters")
HYPHEN = re.compile(r"(\S)-(\S)")


def split_compounds(text: str) -> str:
    """Tokenised text in which every hyphen between two characters is a token, as papers that
    follow Vaswani et al. 2017 score WMT14 English-German."""
    return HYPHEN.sub(r"\1 ##AT##-##AT## \2", text)


class Texts:
    """Tokens to text as fairseq-generate's D lines have it. ``hidden``: tokens that are left
    out."""

    def __init__(self, task: FairseqTask, config: DictConfig, hidden: Collection[int] = ()) -> None:
        self.hidden = set(hidden)
        self.dictionary = task.target_dictionary
        self.tokenizer = task.build_tokenizer(config.tokenizer)
        self.bpe = task.build_bpe(config.bpe)
        self.post_process = config.common_eval.post_process
        raw = {self.post_process, getattr(config.bpe, "_name", None)} & set(RAW_TEXT)
        self.tokenised = self.tokenizer is None and not raw
        self.kind = "detokenised text"
        if self.tokenised and (self.post_process or self.bpe is not None):
            self.kind = "tokenised text, subwords joined"
        elif self.tokenised:
            self.kind = "the dictionary's own tokens (no --post-process)"
        self.bleu = BLEU(tokenize="none" if self.tokenised else "13a", force=True)

    def __call__(self, tokens: list[int], reference: bool = False) -> str:
        """One sentence; an unknown word of a reference is marked, so that it matches nothing."""
        shown = (self.post_process, reference, self.hidden)
        text = self.dictionary.string(torch.tensor(tokens), *shown)
        if self.bpe is not None:
            text = self.bpe.decode(text)
        if self.tokenizer is not None:
            text = self.tokenizer.decode(text)
        return str(text)

    def quality(
        self, tokens: Mapping[str, Mapping[int, list[int]]], data: LanguagePairDataset
    ) -> dict[str, Figures] | None:
        """By system, BLEU against the references in the data, the share of outputs that are the
        reference, and of tokenised text BLEU with compounds split on both sides; None where there
        are no references. ``tokens``: the output of each sentence, by system."""
        numbers, figures = sorted(next(iter(tokens.values()))), {}
        wanted = self.references(data, numbers)
        if wanted is None:
            return None
        split = list(map(split_compounds, wanted))
        for name, each in tokens.items():
            outputs = [self(each[n]) for n in numbers]
            apart = list(map(split_compounds, outputs))
            figures[name] = {
                "bleu": float(self.bleu.corpus_score(outputs, [wanted]).score),
                "exact_percent": 100.0 * sum(map(str.__eq__, outputs, wanted)) / len(wanted),
                "bleu_compound": float(self.bleu.corpus_score(apart, [split]).score)
                if self.tokenised else None,
            }  # fmt: skip
        return figures

    def references(self, data: LanguagePairDataset, numbers: Sequence[int]) -> list[str] | None:
        """The references of these sentences, what the dictionary lacks marked; None without any."""
        if getattr(data, "tgt", None) is None:
            return None
        return [self([int(t) for t in data.tgt[n]], reference=True) for n in numbers]
