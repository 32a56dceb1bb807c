"""BLEU of output as text, with and without compounds split."""

from types import SimpleNamespace

import pytest
from sacrebleu.metrics import BLEU

from fairseq_specdec.bench.text import Texts

SENTENCES = {1: "die gut-gemachte Sache ist nun fertig .", 2: "ein Test mit vier Worten mehr ."}
OUTPUT = {1: "die schlecht-gemachte Sache ist nun fertig .", 2: SENTENCES[2]}


class Looked(Texts):
    """Texts by number, in place of a dictionary's tokens."""

    def __init__(self, tokenised):
        self.tokenised = tokenised
        self.kind = "a toy"

    def __call__(self, tokens, reference=False):
        return (SENTENCES if reference else OUTPUT)[tokens[0]]


DATA = SimpleNamespace(tgt={number: [number] for number in SENTENCES})
SYSTEM = SimpleNamespace(name="ours", tokens={number: [number] for number in SENTENCES})


def test_compounds_are_split_on_both_sides():
    quality = Looked(tokenised=True).quality([SYSTEM], DATA)
    split = {n: text.replace("-", " ##AT##-##AT## ") for n, text in SENTENCES.items()}
    outputs = [OUTPUT[n].replace("-", " ##AT##-##AT## ") for n in OUTPUT]
    expected = BLEU(tokenize="none", force=True).corpus_score(outputs, [list(split.values())])
    assert quality.compound == {"ours": pytest.approx(expected.score)}
    assert 0 < quality.score["ours"] < quality.compound["ours"] < 100


def test_text_that_is_not_tokenised_has_no_such_figure():
    assert Looked(tokenised=False).quality([SYSTEM], DATA).compound is None
