"""Inputs at the edges: what stock decodes is decoded alike, what it dies of is refused by name."""

import copy

import pytest
import torch
from fairseq.modules import LearnedPositionalEmbedding
from toy_strategies import cases, decode, flags, make_generator, stock, tokens, toys, verifying
from toy_translation import EOS, PAD, ids, make_sample, pad_to, sentences, toy_drafter

from fairseq_specdec.decoding.builder import Overrides
from fairseq_specdec.drafting import DraftOptions, NarBlockDrafter

UNK = 3
SENTENCES = sentences(6, seed=5)

SOURCES = {
    "empty": [[EOS], [EOS]],
    "empty beside a long one": [[EOS], ids(range(1, 9))],
    "of one word": [ids([3])] * 3,
    "of unknown words": [[UNK, UNK, UNK, EOS], [5, UNK, EOS]],
    "with an end inside": [[5, EOS, 6, EOS], [7, EOS]],
    "longer than any trained on": [ids(list(range(24)) * 4), ids([3])],
}


def batch(rows):
    sample = make_sample([[0]] * len(rows))
    lengths = torch.tensor([len(row) for row in rows])
    sample["net_input"] = {"src_tokens": pad_to(rows, True), "src_lengths": lengths}
    return sample


def same_as_stock(case, sample, args=None, prefix=None):
    if toys(case).lossless is None:
        pytest.skip("never lossless")
    args = args or flags()
    generator = make_generator(case, args)
    expected = stock(generator.models, sample, args, prefix)
    assert tokens(decode(generator, sample, prefix)) == tokens(expected)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("case", cases())
def test_sources_at_the_edges(case, source):
    same_as_stock(case, batch(SOURCES[source]))


@pytest.mark.parametrize("prefix", [[5] * 6, [EOS, EOS], [PAD, PAD], []], ids=str)
@pytest.mark.parametrize("case", cases())
def test_prefixes_at_the_edges(case, prefix):
    given = torch.tensor([prefix] * len(SENTENCES), dtype=torch.long)
    same_as_stock(case, make_sample(SENTENCES), flags(max_len_b=4), given)


IMPOSSIBLE = {
    "all words used up": ({"no_repeat_ngram_size": 1, "min_len": 40}, None, r"position 26"),
    "a prefix that repeats": ({"no_repeat_ngram_size": 2}, [5, 5, 5], r"position 2"),
    "a prefix without chance": ({"unkpen": float("inf")}, [UNK], r"position 0"),
}


@pytest.mark.parametrize("how", IMPOSSIBLE)
@pytest.mark.parametrize("case", verifying())
def test_where_no_token_is_possible_decoding_stops(case, how):
    """Stock dies of an assertion; a token without a chance must not come out as if it were one."""
    changes, prefix, where = IMPOSSIBLE[how]
    given = None if prefix is None else torch.tensor([prefix] * len(SENTENCES))
    generator = make_generator(case, flags(**changes))
    with pytest.raises(ValueError, match=f"no possible token at {where} of sentence .*--no-repeat"):
        decode(generator, make_sample(SENTENCES), given)


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.slow)], ids=str
)
@pytest.mark.parametrize("case", cases())
def test_half_precision_decodes_nearly_the_same(case, dtype):
    half = copy.deepcopy(toys(case).verifier()).to(dtype)
    outputs = tokens(decode(make_generator(case, models=[half]), make_sample(SENTENCES)))
    expected = tokens(decode(make_generator(case), make_sample(SENTENCES)))
    assert sum(a == b for a, b in zip(outputs, expected)) >= len(SENTENCES) / 2


def test_a_source_past_the_block_drafters_positions_is_left_to_the_verifier():
    drafter = copy.deepcopy(toy_drafter(updates=1))
    dim = drafter.encoder.embed_tokens.embedding_dim
    drafter.encoder.embed_positions = LearnedPositionalEmbedding(PAD + 1 + 4, dim, PAD)
    short, long = batch([ids([3, 4]), ids([5])]), batch([ids(range(9)), ids([3])])
    options = DraftOptions(4, PAD, EOS)
    generator = make_generator("gad", overrides=Overrides(NarBlockDrafter(drafter, options)))
    for sample, drafted in ((long, False), (short, True), (long, False)):
        before = generator.stats.drafted
        expected = stock(generator.models, sample, flags())
        assert tokens(decode(generator, sample)) == tokens(expected)
        assert (generator.stats.drafted > before) == drafted
