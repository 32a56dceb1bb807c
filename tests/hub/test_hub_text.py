"""Tokenizer, BPE, and text that grows."""

import functools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_drafter import dictionary_of

from fairseq_specdec.hub.batching import by_length
from fairseq_specdec.hub.text import TextCodec

# Merges "h a" and "ha us", so that Haus falls into pieces of several kinds.
CODES = "#version: 0.2\nh a\nu s</w>\nha us</w>\n@ -\n@- @</w>\n"
HARD = [
    "@-@", "&quot;", "&apos;", "&apos;s", "&amp;", ",", ".", "(", ")", "$", "„", "“", "»", "«",
    "'s", "l'", "d'", "中", "国", "-", "EU:", "ssa", ":", "?", "%", "haus", "Haus", "12", "`",
]  # fmt: skip


@pytest.fixture(scope="module")
def codes(tmp_path_factory):
    path = tmp_path_factory.mktemp("bpe") / "codes"
    path.write_text(CODES, encoding="utf-8")
    return str(path)


@functools.cache
def make_codec(codes, language, tokenizer):
    words = dictionary_of("h@@", "aus", "haus", "ha@@", "us", ".", "@-@", "H@@", "a@@")
    bpe = {"bpe": "subword_nmt", "bpe_codes": codes}
    chosen = {"tokenizer": tokenizer} if tokenizer else {}
    return TextCodec(chosen, bpe, ("en", language), words, words)


@settings(max_examples=50)
@given(st.data())
def test_what_is_certain_begins_the_text(codes, data):
    language = data.draw(st.sampled_from(["de", "en", "fr", "it", "fi", "zh", "cs", "ga"]))
    tokenizer = data.draw(st.sampled_from(["moses", "space", None]))
    codec = make_codec(codes, language, tokenizer)
    word = st.sampled_from(HARD) | st.text("abü'\"-.", min_size=1, max_size=3)
    cut = data.draw(st.integers(0, 2))
    tokens = []
    for w in data.draw(st.lists(word, max_size=12)):
        whole = not (cut and len(w) > 1) or w == "@-@"
        tokens += [w] if whole else [*(c + "@@" for c in w[:-1]), w[-1]]
    whole = codec.join(tokens)
    assert all(whole.startswith(codec.certain(tokens[:done])) for done in range(len(tokens) + 1))


@given(st.lists(st.integers(0, 30), max_size=20), st.integers(1, 5), st.integers(1, 60))
def test_batches_by_length(lengths, batch_size, max_tokens):
    batches = by_length(lengths, batch_size, max_tokens)
    assert sorted(sum(batches, [])) == [i for i, n in enumerate(lengths) if n]
    order = [lengths[i] for batch in batches for i in batch]
    assert order == sorted(order, reverse=True)
    for batch in batches:
        assert len(batch) <= batch_size
        assert len(batch) == 1 or lengths[batch[0]] * len(batch) <= max_tokens
    assert by_length([3, 9, 3, 8, 0], 2, 100) == [[1, 3], [0, 2]]
