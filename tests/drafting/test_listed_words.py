"""Drafts from lists of words in the native library: each row's best among its own, in any batch."""

import copy

import pytest
import torch
from toy_drafter import ToyTask, make_drafter
from toy_hypotheses import open_on, rows_of, slow_draft
from toy_translation import EOS, FIRST, PAD, WORDS, make_sample, toy_drafter
from walking import SOURCES, TARGETS, walk

from fairseq_specdec.drafting import DraftOptions, NarBlockDrafter
from fairseq_specdec.drafting.native_block import NativeBlockSession
from fairseq_specdec.engine.backend import choose_backend
from fairseq_specdec.models.word_list import WordList

SIZE = FIRST + WORDS
pytestmark = pytest.mark.usefixtures("with_library")


def word_list(kinds):
    """A list in which each source word has one translation, of ``kinds`` different words."""
    translations = torch.arange(SIZE, dtype=torch.int16) % kinds + FIRST + 1
    translations[:FIRST] = PAD
    return WordList(translations.unsqueeze(1), torch.tensor([EOS, FIRST]), SIZE, PAD)


def listed_toy(kinds, **settings):
    model = copy.deepcopy(toy_drafter(updates=60, **settings))  # other tests share it
    model.word_list = word_list(kinds)
    return model


def opened(model, sources=SOURCES, number_format="fp32", backend="native", **more):
    drafter = NarBlockDrafter(model, DraftOptions(4, PAD, EOS, **more))
    chosen = choose_backend(backend, [model], number_format)
    return open_on(drafter, sources, 60, backend=chosen)


def listed_draft(model, source, output):
    """The best listed words by the pass that training uses, one after the other, and the
    probability of each among the listed ones."""
    net_input = make_sample([source])["net_input"]
    listed, chances = model.word_list.of(net_input["src_tokens"])[1], []

    def best(logits):
        chance, at = logits[listed].softmax(0).max(0)
        chances.append(float(chance))
        return int(listed[at])

    return slow_draft(model, net_input, output, best), chances


@pytest.mark.parametrize("kinds", [4, 20])
@pytest.mark.parametrize("settings", [{}, {"chain_width": 16}])
def test_the_best_listed_words_are_drafted(settings, kinds):
    """With 4 kinds of words a batch's lists are a small part of the vocabulary, with 20 not."""
    model = listed_toy(kinds, **settings)
    session = opened(model)
    assert isinstance(session, NativeBlockSession)
    drafts = walk(session, lambda row, seen: listed_draft(model, SOURCES[row], seen)[0])
    session.close()
    assert len(set(sum(drafts, []))) > 1


def wide_model(number_format):
    """Random weights, and lists of 90 words of 404; those of all rows together are most words."""
    torch.manual_seed(3)
    model = make_drafter(ToyTask(words=400), chain_width=16).eval()
    torch.nn.init.normal_(model.decoder.chain.out.weight)
    if number_format == "halves":
        model = model.half().float()
    words = torch.randperm(400)[: 4 * 90].view(4, 90) + FIRST
    translations = words[torch.arange(404) % 4]
    translations[PAD] = PAD
    model.word_list = WordList(translations, torch.tensor([EOS]), 404, PAD)
    return model


@pytest.mark.parametrize("number_format", ["fp32", "halves", "bf16", "int8"])
@torch.no_grad()
def test_a_row_drafts_the_same_in_any_batch(number_format):
    """Alone by the product with its words, together by that with the whole vocabulary."""
    model = wide_model(number_format)
    sources = [[4 * i + row for i in range(9 - row)] for row in range(4)]
    packed = "fp32" if number_format == "halves" else number_format
    drafted = set()
    for last in range(20, 400, 60):
        outputs = [[last + row] for row in range(4)]
        session = opened(model, sources, packed)
        together = session.propose(rows_of(outputs)).tokens.tolist()
        for row, source in enumerate(sources):
            # Twice, since a row alone has more of the chain's candidates.
            session = opened(model, [source] * 2, packed)
            alone = session.propose(rows_of([outputs[row]] * 2)).tokens.tolist()
            assert alone == [together[row]] * 2, (row, last)
            drafted |= set(alone[0])
    assert len(drafted) > 10


@pytest.mark.parametrize("settings", [{}, {"chain_width": 16}])
@torch.no_grad()
def test_drafts_end_where_the_best_listed_word_is_unlikely(settings):
    model = listed_toy(4, **settings)
    session = opened(model, confidence=0.5)
    sizes = session.propose(rows_of([t[:2] for t in TARGETS], 70)).sizes.tolist()
    for source, target, size in zip(SOURCES, TARGETS, sizes):
        chances = torch.tensor(listed_draft(model, source, target[:2])[1])
        assert size == int((chances.cumprod(0) >= 0.5).sum())
    assert len(set(sizes)) > 2
