"""What each entry point of the library refuses, in the calls that decoding makes."""

import argparse
import copy
import ctypes
import threading

import pytest
import torch
from fairseq.models.transformer import TransformerModel, base_architecture
from native_numbers import numbers
from toy_strategies import TOYS, Toys, attached, flags, forced, look_ahead, make_generator
from toy_translation import EOS, PAD, make_sample, make_task, sentences, toy_drafter

from fairseq_specdec.decoding.builder import check_verifier
from fairseq_specdec.engine.backend import NativeBackend
from fairseq_specdec.engine.native.library import SIGNATURES, Library
from fairseq_specdec.engine.native.linear import NativeLinear
from fairseq_specdec.engine.native.stack import refusal
from fairseq_specdec.engine.native.structures import Shape
from fairseq_specdec.engine.transformer import Transformer
from fairseq_specdec.models.word_list import WordList

# (case of toy_strategies, beam): together they call all that decoding calls.
CASES = [
    *[("greedy", 1), ("iad", 1), ("iad", 3), ("gad", 1), ("gad-attached", 1)],
    *[
        ("blockwise", 1),
        ("listed", 1),
        ("bild", 1),
        ("nar", 1),
        ("windows", 1),
        ("lone", 1),
        ("twin", 1),
        ("ngrams", 1),
    ],
]
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
    look_ahead(monkeypatch, 3)
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


def test_these_cases_call_every_entry_point(watch):
    """But for those of packed files and products, which have tests of their own."""
    called, answered = set(), {name for name in SIGNATURES if not name.endswith("_free")}
    watch(lambda call, name, given: called.add(name))
    for case in CASES:
        decoded(*case)
    own = {"matrix_reference", "matrix_borrow", "matrix_multiply", "matrix_rows", "beams_prefix"}
    assert answered - called <= {f"specdec_{name}" for name in own}


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


# (outputs, inputs) of a layer's products and the vocabulary's, in the order of their numbers.
WIDTH, INNER, SOURCE, WORDS = 8, 12, 6, 20
PRODUCTS = [
    *[(3 * WIDTH, WIDTH), (WIDTH, WIDTH), (WIDTH, WIDTH), (2 * WIDTH, SOURCE), (WIDTH, WIDTH)],
    *[(INNER, WIDTH), (WIDTH, INNER), (WORDS, WIDTH)],
]


def finish_stack(library, products, norms):
    """Make a decoder's stack of one layer of these sizes, and free it."""
    pointer, one, kept = ctypes.c_void_p(), torch.ones(WIDTH + 1), []
    shape = Shape(1, WIDTH, INNER, 2, 1, 1, 1, 0, SOURCE, WIDTH)
    library.call("specdec_stack_new", ctypes.byref(shape), ctypes.byref(pointer))
    try:
        for number, size in enumerate(products):
            kept.append(NativeLinear(library, torch.randn(*size), None, "fp32"))
            library.call("specdec_stack_matrix", pointer, 0, number, kept[-1].pointer)
        for number, width in enumerate(norms):
            library.call(
                "specdec_stack_norm", pointer, 0, number, width, *[one.data_ptr()] * 2, 1e-5
            )
        library.call("specdec_stack_finish", pointer)
    finally:
        library._handle.specdec_stack_free(pointer)


def test_parts_of_another_size_are_refused(loaded):
    finish_stack(loaded, PRODUCTS, [WIDTH] * 4)
    for number, (outputs, inputs) in enumerate(PRODUCTS):
        for more in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            if number == len(PRODUCTS) - 1 and more[0]:
                continue  # any number of words
            products = list(PRODUCTS)
            products[number] = (outputs + more[0], inputs + more[1])
            with pytest.raises(ValueError, match=r"wrong size: .* is \d+ x \d+, not \d+ x \d+"):
                finish_stack(loaded, products, [WIDTH] * 4)
    for number in range(4):
        norms = [WIDTH + (each == number) for each in range(4)]
        with pytest.raises(ValueError, match="wrong size: norm"):
            finish_stack(loaded, PRODUCTS, norms)


def odd_model(**settings):
    """A Transformer of random weights whose settings may not fit one another."""
    torch.manual_seed(1)
    args = argparse.Namespace(
        encoder_embed_dim=16, decoder_embed_dim=16, encoder_ffn_embed_dim=32,
        decoder_ffn_embed_dim=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, dropout=0.0, **settings,
    )  # fmt: skip
    base_architecture(args)
    return TransformerModel.build_model(args, make_task()).eval()


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


def test_a_search_ends_where_its_session_was_opened_for_others(watch):
    opened, states = [], torch.zeros(2**16)

    def see(call, name, given):
        if name == "specdec_session_open":
            opened.append((call, given))
        elif name == "specdec_beams_run":
            again, (pointer, rows, source, width, _, _, capacity) = opened[-1]
            assert rows * source * width <= len(states)
            again([pointer, rows - 1, source, width, states.data_ptr(), None, capacity])

    watch(see)
    with pytest.raises(ValueError, match="a session of another batch"):
        decoded("greedy", 3)


@pytest.mark.parametrize("more", [-1, 1])
def test_a_chain_of_another_vocabulary_is_refused(more, monkeypatch):
    """It has two tables of a row for each word, which the library looks up by token."""
    model = copy.deepcopy(attached())
    words, width = model.decoder.embed_tokens.weight.shape
    model.decoder.embed_tokens = torch.nn.Embedding(words + more, width)
    monkeypatch.setitem(TOYS, "odd", Toys("gad", {}, drafter=lambda: model))
    with pytest.raises(ValueError, match="the chain's tables have .* rows, the vocabulary"):
        decoded("odd")
