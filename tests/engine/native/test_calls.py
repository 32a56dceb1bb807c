"""What each entry point of the library refuses, in the calls that decoding makes."""

import copy
import threading

import pytest
import torch
from native_numbers import numbers
from toy_drafter import make_verifier
from toy_strategies import TOYS, Toys, attached, flags, forced, look_ahead, make_generator
from toy_translation import EOS, PAD, both, make_sample, make_task, sentences, toy_drafter

from fairseq_specdec.decoding.builder import check_verifier
from fairseq_specdec.engine.backend import NativeBackend
from fairseq_specdec.engine.native.library import Library
from fairseq_specdec.engine.native.stack import refusal
from fairseq_specdec.engine.transformer import Transformer
from fairseq_specdec.models.word_list import WordList

# (case of toy_strategies, beam): together they call all that decoding calls.
CASES = [("iad", 3), *((case, 1) for case in (
    "greedy", "iad", "gad", "gad-attached", "blockwise", "listed", "bild", "nar", "windows", "lone",
    "twin", "ngrams",
))]  # fmt: skip
SAMPLE, LONE = make_sample(sentences(5, seed=5)), make_sample(sentences(1, seed=5))


@pytest.fixture(autouse=True)
def more_toys(monkeypatch):
    """Drafts from a list of words, a list of tokens, and a twin, beside those of ``TOYS``."""

    def listed_toy():
        model, words = copy.deepcopy(toy_drafter()), len(make_task().tgt_dict)
        translations = torch.arange(words, dtype=torch.int16).clamp(min=4).unsqueeze(1)
        model.word_list = WordList(translations, torch.tensor([EOS]), words, PAD)
        return model

    monkeypatch.setitem(TOYS, "listed", Toys("gad", {}, drafter=listed_toy))
    monkeypatch.setitem(TOYS, "ngrams", Toys("gad", {}, drafter=toy_drafter))
    monkeypatch.setitem(TOYS, "windows", Toys("greedy", {"vocabulary_window": 4}))
    monkeypatch.setitem(TOYS, "lone", Toys("greedy", {"vocabulary_window": 4, "twin": "none"}))
    monkeypatch.setitem(TOYS, "twin", Toys("greedy", {"twin": "int8"}))
    monkeypatch.setattr("fairseq_specdec.drafting.twin._SMALLEST", 0)


def decoded(case, beam=1):
    """The hypotheses of a batch whose rows end apart, some of them with a forced prefix."""
    options = flags(beam, max_len_b=12)
    options.no_repeat_ngram_size = 3 if case == "ngrams" else 0  # torch steps, the library drafts
    generator = make_generator(case, options, backend="native", threads=1)
    sample = LONE if case == "lone" else SAMPLE
    prefix = None if case == "nar" else forced(5, 2)[slice(2, 3) if case == "lone" else slice(5)]
    outputs = generator.generate(generator.models, sample, prefix_tokens=prefix)
    return [[one["tokens"].tolist() for one in hypotheses] for hypotheses in outputs]


@pytest.fixture
def watch(built, monkeypatch):
    """Has a function see (library, name, arguments) of each call before it is made."""

    def by(see):
        def watched(self, name, *arguments):
            see(lambda given: call(self, name, *given), name, list(arguments))
            call(self, name, *arguments)

        call = Library.call
        monkeypatch.setattr(Library, "call", watched)

    return by


@pytest.mark.parametrize("case, beam", CASES)
def test_impossible_numbers_are_refused_and_change_nothing(case, beam, watch, monkeypatch):
    """Each number of each call, where it is first made; decoding goes on as it would have."""
    look_ahead(monkeypatch, 3, 4)
    wanted, tried, accepted = decoded(case, beam), set(), []

    def see(call, name, given):
        for number in list(numbers(name, given)):
            values = () if number.label in tried else number.impossible()
            tried.add(number.label)
            for value in values:
                with number.replaced(value):
                    try:
                        call(given)
                    except (ValueError, MemoryError) as error:
                        assert str(error)
                    else:
                        accepted.append((number.label, value))

    watch(see)
    assert decoded(case, beam) == wanted
    assert accepted == [] and len(tried) > 30


SELF = "the verifier's session"


@pytest.mark.parametrize("case, field, value, reason", [
    ("twin", "drafting.session", None, "drafts without a drafter"),
    ("windows", "window", 2**62, "a window of impossible length"),
    ("gad", "drafting.session", None, "a session or a table of another size"),
    ("gad", "drafting.session", SELF, "a session or a table of another size"),
    ("gad", "outputs.drafts", None, "drafts of another width than the block"),
    ("gad-attached", "outputs.states", None, "layers to read without room"),
    ("gad-attached", "read_count", 0, "a drafter that reads other hidden states"),
    ("greedy", "rules.prefix", None, "a prefix without tokens"),
])  # fmt: skip
def test_parts_that_are_missing_or_of_another_are_refused(case, field, value, reason, watch):
    refused = []

    def see(call, name, given):
        undrafted = case in ("greedy", "windows")
        if name != "specdec_verify" or refused or not (undrafted or given[1]._obj.drafting):
            return
        owner, (*path, last) = given[1]._obj, field.split(".")
        for part in path:
            owner = getattr(owner, part)
            owner = getattr(owner, "contents", owner)
        if last == "read_count" and not owner.drafting.contents.states:
            return
        before = getattr(owner, last)
        setattr(owner, last, given[0].value if value is SELF else value)
        with pytest.raises(ValueError, match=reason):
            call(given)
        setattr(owner, last, before)
        refused.append(field)

    watch(see)
    assert decoded(case) and refused


def odd_model(**settings):
    """A Transformer of random weights whose settings may not fit one another."""
    torch.manual_seed(1)
    shape = both(embed_dim=16, ffn_embed_dim=32, layers=1, attention_heads=2)
    return make_verifier(make_task(), **shape, **settings)[0].eval()


@pytest.mark.parametrize("shared", ["share_decoder_input_output_embed", "tie_adaptive_weights"])
def test_a_vocabulary_that_reads_another_width_is_refused(shared):
    """It read foreign memory once. Stock fairseq fails on these models too."""
    model = odd_model(**{shared: True, "decoder_output_dim": 24})
    with pytest.raises(ValueError, match="--path: fairseq cannot decode this model"):
        check_verifier(model, "--path")
    assert "its vocabulary reads" in refusal(model.decoder)


def test_a_row_of_padding_alone_is_encoded(loaded):
    """A thread's first batch: there was no memory yet that the empty row could look at."""
    weights, encoded = Transformer.read(odd_model(), NativeBackend(loaded)), []
    inputs = make_sample(sentences(2, seed=1))["net_input"]
    tokens, lengths = inputs["src_tokens"], inputs["src_lengths"]
    inputs["src_tokens"] = torch.cat([torch.full_like(tokens[:1], PAD), tokens])
    inputs["src_lengths"] = torch.cat([torch.zeros(1).long(), lengths])
    thread = threading.Thread(target=lambda: encoded.append(weights.encode(inputs)))
    thread.start()
    thread.join()
    states = encoded[0]["encoder_out"][0]
    assert not states[:, 0].any() and states[:, 1:].any()


@pytest.mark.parametrize("more", [-1, 1])
def test_a_chain_of_another_vocabulary_is_refused(more, monkeypatch):
    """It has two tables of a row for each word, which the library looks up by token."""
    model = copy.deepcopy(attached())
    words, width = model.decoder.embed_tokens.weight.shape
    model.decoder.embed_tokens = torch.nn.Embedding(words + more, width)
    monkeypatch.setitem(TOYS, "odd", Toys("gad", {}, drafter=lambda: model))
    with pytest.raises(ValueError, match="the chain's tables have .* rows, the vocabulary"):
        decoded("odd")
