"""Output as text, and its BLEU."""

from __future__ import annotations

import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

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
    """BLEU by system's name, the same with compounds split on both sides (None where the text is
    not tokenised), on what text, in words, and sacrebleu's signature."""

    score: Dict[str, float]
    compound: Optional[Dict[str, float]]
    on: str
    signature: str


class Counts(NamedTuple):
    """What BLEU counts in a sentence: runs of 1 to 4 words that are in the reference too, words of
    the output and of the reference. Sums over sentences give the corpus's."""

    matches: Tuple[int, ...]
    words: int
    reference_words: int


class Texts:
    """Tokens to text as fairseq-generate's D lines have it.

    Args:
        task: holds the target dictionary.
        config: ``--post-process``, ``--bpe``, ``--tokenizer``.
    """

    def __init__(self, task: Any, config: Any) -> None:
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

    def __call__(self, tokens: List[int], reference: bool = False) -> str:
        """One sentence; an unknown word of a reference is marked, so that it matches nothing."""
        text = self.dictionary.string(torch.tensor(tokens), self.post_process, escape_unk=reference)
        if self.bpe is not None:
            text = self.bpe.decode(text)
        if self.tokenizer is not None:
            text = self.tokenizer.decode(text)
        return str(text)

    def quality(self, systems: List[Any], data: Any) -> Optional[Quality]:
        """BLEU against the references in the data; None where it holds none."""
        if getattr(data, "tgt", None) is None:
            return None
        score, compound, signature = {}, {}, ""
        numbers = sorted(systems[0].tokens)
        wanted = self.references(data, numbers)
        split = [split_compounds(text) for text in wanted]
        for system in systems:
            bleu = self._bleu()
            outputs = [self(system.tokens[n]) for n in numbers]
            score[system.name] = float(bleu.corpus_score(outputs, [wanted]).score)
            signature = str(bleu.get_signature())
            outputs = [split_compounds(text) for text in outputs]
            compound[system.name] = float(self._bleu().corpus_score(outputs, [split]).score)
        return Quality(score, compound if self.tokenised else None, self.kind, signature)

    def _bleu(self) -> BLEU:
        return BLEU(tokenize="none" if self.tokenised else "13a", force=True)

    def references(self, data: Any, numbers: Sequence[int]) -> List[str]:
        """The references of these sentences; what the dictionary lacks is marked in them."""
        return [self([int(t) for t in data.tgt[n]], reference=True) for n in numbers]

    def counts(self, outputs: Sequence[List[int]], references: Sequence[str]) -> List[Counts]:
        """What BLEU counts in each sentence: token ids against a reference text."""
        bleu, found = self._bleu(), []
        for output, reference in zip(outputs, references):
            one = bleu.corpus_score([self(output)], [[reference]])
            found.append(Counts(tuple(map(int, one.counts)), int(one.sys_len), int(one.ref_len)))
        return found
