"""What a stack of packed weights is made of is checked once, in the library, whatever it is."""

import argparse
import copy
import ctypes
import pathlib
import re
import threading

import pytest
import torch
from fairseq.models.transformer import TransformerModel, base_architecture
from toy_hypotheses import chain_layout
from toy_strategies import flags
from toy_translation import (
    EOS,
    PAD,
    make_sample,
    make_task,
    sentences,
    toy_attached_drafter,
    toy_model,
)

import fairseq_specdec.engine.native as native_package
from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.builder import Overrides, build_generator, check_verifier
from fairseq_specdec.drafting import DraftOptions, NarBlockDrafter
from fairseq_specdec.engine.backend import TORCH, NativeBackend
from fairseq_specdec.engine.native.linear import NativeLinear
from fairseq_specdec.engine.native.stack import refusal
from fairseq_specdec.engine.native.structures import (
    BeamSetup,
    Drafting,
    Drafts,
    Embedding,
    Rules,
    RunCall,
    Shape,
    SourceCopy,
    StepOutputs,
    VerifyCall,
)
from fairseq_specdec.engine.native.structures import Hypotheses as HypothesesView
from fairseq_specdec.engine.transformer import Transformer

SOURCES = pathlib.Path(native_package.__path__[0]) / "src"
WIDTH, INNER, SOURCE, FEATURES, WORDS = 8, 12, 6, 10, 20
WORDS_OF_TOYS = len(make_task().tgt_dict)
# (outputs, inputs) of each part, as in fairseq's modules.
SIZES = {
    "kSelfQueryKeyValue": (3 * WIDTH, WIDTH),
    "kSelfOut": (WIDTH, WIDTH),
    "kCrossQuery": (WIDTH, WIDTH),
    "kCrossKeyValue": (2 * WIDTH, SOURCE),
    "kCrossOut": (WIDTH, WIDTH),
    "kInner": (INNER, WIDTH),
    "kOuter": (WIDTH, INNER),
    "kVocabulary": (WORDS, FEATURES),
}


def parts(enumeration):
    """The names of an enumeration in transformer.h, without the one that counts."""
    source = (SOURCES / "transformer.h").read_text("utf-8")
    body = re.search(rf"enum {enumeration} {{(.*?)}}", source, re.S).group(1)
    names = [name.split("=")[0].strip() for name in body.split(",")]
    return [name for name in names if name and not name.startswith("kLayer")]


class Stack:
    """A decoder's stack of one layer under construction."""

    def __init__(self, library):
        self.library, self.kept, self.pointer = library, [], ctypes.c_void_p()
        shape = Shape(1, WIDTH, INNER, 2, 1, 1, 1, 0, SOURCE, FEATURES)
        library.call("specdec_stack_new", ctypes.byref(shape), ctypes.byref(self.pointer))

    def matrix(self, number, size):
        self.kept.append(NativeLinear(self.library, torch.randn(*size), None, "fp32"))
        self.library.call("specdec_stack_matrix", self.pointer, 0, number, self.kept[-1].pointer)

    def norm(self, number, width):
        one = torch.ones(width)
        pointers = (one.data_ptr(), one.data_ptr())
        self.library.call("specdec_stack_norm", self.pointer, 0, number, width, *pointers, 1e-5)

    def filled(self, wrong=None, size=None):
        """All parts and norms, one of them of another size; finished."""
        for number, name in enumerate(parts("Part")):
            self.matrix(number, size if name == wrong else SIZES[name])
        for number, name in enumerate(parts("NormPart")):
            self.norm(number, size if name == wrong else WIDTH)
        self.library.call("specdec_stack_finish", self.pointer)
        self.library.free("specdec_stack_free", self.pointer)


def test_every_part_of_a_stack_has_a_size_here():
    assert set(parts("Part")) == set(SIZES) and len(parts("NormPart")) == 4


def test_a_stack_of_the_right_sizes_is_complete(loaded):
    Stack(loaded).filled()


@pytest.mark.parametrize("name", parts("Part"))
@pytest.mark.parametrize("change", [(1, 0), (-1, 0), (0, 1), (0, -1)], ids=str)
def test_a_matrix_of_another_size_is_refused(name, change, loaded):
    outputs, inputs = SIZES[name]
    if name == "kVocabulary" and change[0]:
        pytest.skip("the vocabulary may have any number of words")
    with pytest.raises(ValueError, match=r"wrong size: .* is \d+ x \d+, not \d+ x \d+"):
        Stack(loaded).filled(name, (outputs + change[0], inputs + change[1]))


@pytest.mark.parametrize("name", parts("NormPart"))
def test_a_norm_of_another_size_is_refused(name, loaded):
    with pytest.raises(ValueError, match="wrong size: norm"):
        Stack(loaded).filled(name, WIDTH + 1)


def test_an_encoder_that_reads_encoder_states_is_refused(loaded):
    shape = Shape(1, WIDTH, INNER, 2, 0, 1, 1, 0, SOURCE, FEATURES)
    with pytest.raises(ValueError, match="an encoder that reads encoder states"):
        loaded.call("specdec_stack_new", ctypes.byref(shape), ctypes.byref(ctypes.c_void_p()))


def odd_model(**settings):
    """A Transformer of random weights whose settings do not fit one another."""
    torch.manual_seed(1)
    args = argparse.Namespace(
        encoder_embed_dim=16, decoder_embed_dim=16, encoder_ffn_embed_dim=32,
        decoder_ffn_embed_dim=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, dropout=0.0, **settings,
    )  # fmt: skip
    base_architecture(args)
    return TransformerModel.build_model(args, make_task()).eval()


@pytest.mark.parametrize(
    "settings",
    [
        {"share_decoder_input_output_embed": True, "decoder_output_dim": 12},
        {"share_decoder_input_output_embed": True, "decoder_output_dim": 24},
        {"tie_adaptive_weights": True, "decoder_output_dim": 24},
    ],
    ids=str,
)
def test_a_vocabulary_that_reads_another_width_is_refused(settings, loaded):
    """It read foreign memory once. Stock fairseq fails on these models too."""
    model, inputs = odd_model(**settings), make_sample(sentences(2, seed=1))["net_input"]
    with pytest.raises(RuntimeError):
        model(**inputs, prev_output_tokens=torch.ones(2, 1).long())
    with pytest.raises(ValueError, match="--path: fairseq cannot decode this model"):
        check_verifier(model, "--path")
    assert "its vocabulary reads" in refusal(model.decoder)


@pytest.mark.parametrize("value, meaning", [({"a": 1}, True), ({}, False), ([[]], True)], ids=str)
def test_a_flag_that_is_no_boolean_is_what_fairseq_takes_it_for(value, meaning, loaded):
    """Checkpoints of old layouts hold any plain value there."""
    one, other = (odd_model(decoder_normalize_before=each) for each in (value, meaning))
    inputs = make_sample(sentences(2, seed=1))["net_input"]
    for backend in (NativeBackend(loaded), TORCH):
        states = []
        for model in (one, other):
            weights = Transformer.read(model, backend)
            session = weights.open(weights.encode(inputs), 20, 4)
            layout = chain_layout([0] * 2, 1)
            states.append(session.run(torch.full((2, 1), EOS), layout))
        assert torch.equal(*states)


def test_rows_of_another_width_are_refused(loaded):
    product = NativeLinear(loaded, torch.randn(3, 8), None, "fp32")
    with pytest.raises(ValueError, match="a product of 8 columns and rows of 4 numbers"):
        product(torch.randn(4, 4))


def test_a_row_of_padding_alone_is_encoded(loaded):
    """A thread's first batch: there was no memory yet that the empty row could look at."""
    weights = Transformer.read(odd_model(), NativeBackend(loaded))
    inputs, encoded = make_sample(sentences(2, seed=1))["net_input"], []
    inputs["src_tokens"] = torch.cat(
        [torch.ones_like(inputs["src_tokens"][:1]), inputs["src_tokens"]]
    )
    inputs["src_lengths"] = torch.cat([torch.zeros(1).long(), inputs["src_lengths"]])
    thread = threading.Thread(target=lambda: encoded.append(weights.encode(inputs)))
    thread.start()
    thread.join()
    states = encoded[0]["encoder_out"][0]
    assert not states[:, 0].any() and states[:, 1:].any()


HUGE = (2**31 - 1, 2**24, 0, -1)


@pytest.fixture
def session(loaded):
    """A session of a small decoder, opened for two rows."""
    model = odd_model(share_all_embeddings=True)
    weights = Transformer.read(model, NativeBackend(loaded))
    return weights.open(weights.encode(make_sample(sentences(2, seed=1))["net_input"]), 20, 4)


@pytest.mark.parametrize("count", HUGE)
@pytest.mark.parametrize("which", range(3))
def test_batches_of_impossible_size_are_refused(which, count, session, loaded):
    numbers = [1, 1, 4]
    numbers[which] = count
    rows, source, capacity = numbers
    states = torch.zeros(16)
    with pytest.raises(ValueError, match="an empty batch"):
        loaded.call(
            "specdec_session_open", session.buffers.pointer, rows, source, 16,
            states.data_ptr(), None, capacity,
        )  # fmt: skip


@pytest.mark.parametrize("value", [2**63 - 1, 2**62, 2**24, 0, -1, -(2**63)])
@pytest.mark.parametrize("field", ["rows", "width", "upto", "size", "wanted"])
def test_blocks_of_impossible_size_are_refused(field, value, session, loaded):
    x, slots, features = torch.zeros(2, 1, 16), torch.zeros(2, 1).long(), torch.zeros(2, 1, 16)
    call = RunCall(
        2, 1, 1, 16, x.data_ptr(), slots.data_ptr(), None, None, 1, 0, None,
        features.data_ptr(),
    )  # fmt: skip
    loaded.call("specdec_session_run", session.buffers.pointer, ctypes.byref(call))
    setattr(call, field, value)
    with pytest.raises(ValueError):
        loaded.call("specdec_session_run", session.buffers.pointer, ctypes.byref(call))


@pytest.mark.parametrize("count, layer", [(3, 1), (-1, 1), (2**62, 1), (1, 0), (1, 2)])
def test_layers_to_read_are_checked(count, layer, session, loaded):
    x, slots, features = torch.zeros(2, 1, 16), torch.zeros(2, 1).long(), torch.zeros(2, 1, 16)
    read = (ctypes.c_int32 * 1)(layer)
    call = RunCall(
        2, 1, 1, 16, x.data_ptr(), slots.data_ptr(), None, None, 1, count, read,
        features.data_ptr(), features.data_ptr(),
    )  # fmt: skip
    with pytest.raises(ValueError, match="to read"):
        loaded.call("specdec_session_run", session.buffers.pointer, ctypes.byref(call))


@pytest.mark.parametrize("changed", ["places", "vocabulary", "width"])
def test_tables_of_another_size_are_refused(changed, session, loaded):
    """A table of no positions was read before its first row."""
    table, places = torch.zeros(WORDS, 16), torch.zeros(1, 16)
    embedding = Embedding(
        table.data_ptr(), None, places.data_ptr(), session.weights.stack.words, 1, 16, 1.0
    )
    setattr(embedding, changed, 0)
    setup, beams = BeamSetup(embedding, Rules(0, 1, 2, 1, 10), 2, 2), ctypes.c_void_p()
    with pytest.raises(ValueError, match="a table of another size"):
        loaded.call(
            "specdec_beams_new", session.buffers.pointer, ctypes.byref(setup),
            ctypes.byref(beams),
        )  # fmt: skip


@pytest.mark.parametrize(
    "token, width, message",
    [(2**20, 2, "not in the vocabulary"), (5, -1, "impossible length"), (5, 2**62, "impossible")],
)
def test_impossible_prefixes_are_refused(token, width, message, session, loaded):
    small, beams = Small(loaded, session), ctypes.c_void_p()
    prefix = torch.tensor([[5, 6], [7, token]])
    small.rules.prefix, small.rules.prefix_width = prefix.data_ptr(), width
    with pytest.raises(ValueError, match=message):
        small.verify(small.verification())
    setup = BeamSetup(small.embedding, small.rules, 2, 2)
    with pytest.raises(ValueError, match=message):
        loaded.call("specdec_beams_new", small.pointer, ctypes.byref(setup), ctypes.byref(beams))
    small.rules.prefix, small.rules.prefix_width = None, 2
    with pytest.raises(ValueError, match="a prefix without tokens"):
        small.verify(small.verification())


@pytest.mark.parametrize("steps, reach, count", [(2**31 - 1, 1, 0), (1, 2**20, 0), (1, 1, -1)])
def test_impossible_looks_ahead_are_refused(steps, reach, count, session, loaded):
    words = session.weights.stack.words
    table = torch.zeros(words, 16)
    embedding = Embedding(table.data_ptr(), None, None, words, 0, 16, 1.0)
    setup, beams = BeamSetup(embedding, Rules(0, 1, 2, 1, 10), 2, 2), ctypes.c_void_p()
    loaded.call(
        "specdec_beams_new", session.buffers.pointer, ctypes.byref(setup),
        ctypes.byref(beams),
    )  # fmt: skip
    with pytest.raises(ValueError, match="impossible"):
        loaded.call("specdec_beams_look_ahead", beams, 0, count, None, steps, reach)
    loaded.free("specdec_beams_free", beams)


class Small:
    """Two rows of a small decoder's session, and buffers for calls on it."""

    def __init__(self, library, session):
        self.library, self.pointer = library, session.buffers.pointer
        self.stack = session.weights.stack
        self.kept = [torch.zeros(self.stack.words, 16), torch.zeros(2, 12).long()]
        self.kept += [torch.zeros(2, 12), torch.zeros(64).long(), torch.zeros(64).double()]
        table, tokens, scores, self.numbers, self.seconds = (each.data_ptr() for each in self.kept)
        self.embedding = Embedding(table, None, None, self.stack.words, 0, 16, 1.0)
        self.hypotheses = HypothesesView(12, tokens, scores, self.numbers, None)
        self.rules = Rules(0, 1, 2, 1, 10, 0.0, 1.0, 1)

    def verification(self):
        """Of no drafts, once."""
        drafts = Drafts(2, 0, None, self.numbers)
        outputs = StepOutputs(self.numbers, None, None, self.seconds, None, 0)
        return VerifyCall(
            self.embedding, self.rules, drafts, self.hypotheses, 0, None, 1, outputs
        )  # fmt: skip

    def verify(self, call):
        outcomes = torch.zeros(8).long()
        call.outputs.outcomes = outcomes.data_ptr()
        self.library.call("specdec_verify", self.pointer, ctypes.byref(call))

    def drafter(self, rows):
        """``Drafting`` of a token by a drafter on the same stack, a session of it for so many
        rows."""
        drafter, session = ctypes.c_void_p(), ctypes.c_void_p()
        mask, states = torch.zeros(16), torch.zeros(rows, 1, 16)
        self.library.call("specdec_drafter_new", self.stack.pointer, 16, mask.data_ptr(), 1,
                          ctypes.byref(drafter))  # fmt: skip
        self.library.call("specdec_session_new", self.stack.pointer, ctypes.byref(session))
        self.library.call("specdec_session_open", session, rows, 1, 16, states.data_ptr(), None, 9)
        return Drafting(drafter, session, None, self.embedding, 1, -1)

    def drafts(self, drafting, **changes):
        """A verification that drafts, with other numbers."""
        call = self.verification()
        for name, value in changes.items():
            setattr(drafting, name, value)
        call.drafts.width, call.outputs.drafts = 1, self.kept[3].data_ptr() + 8 * 16
        call.drafting = ctypes.pointer(drafting)
        return call


@pytest.fixture
def small(loaded, session):
    return Small(loaded, session)


def test_verification_of_what_fits(small):
    """The calls below are refused for the one number that is changed."""
    small.verify(small.verification())


def test_layers_to_read_need_room(small, loaded):
    call, read = small.verification(), (ctypes.c_int32 * 1)(1)
    call.read_count, call.read = 1, read
    with pytest.raises(ValueError, match="layers to read without room"):
        small.verify(call)
    x, slots = torch.zeros(2, 1, 16), torch.zeros(2, 1).long()
    block = RunCall(2, 1, 1, 16, x.data_ptr(), slots.data_ptr(), None, None, 1, 1, read,
                    x.data_ptr())  # fmt: skip
    with pytest.raises(ValueError, match="layers to read without room"):
        loaded.call("specdec_session_run", small.pointer, ctypes.byref(block))


@pytest.mark.parametrize("value", [-1, 2**24, 2**62, -(2**63)])
@pytest.mark.parametrize("part, name", [
    ("drafts", "rows"), ("drafts", "width"), ("hypotheses", "columns"),
])  # fmt: skip
def test_verification_of_impossible_sizes_is_refused(part, name, value, small):
    call = small.verification()
    setattr(getattr(call, part), name, value)
    with pytest.raises(ValueError, match="another number of rows|impossibl"):
        small.verify(call)


@pytest.mark.parametrize("count", [3, 2**31 - 1, -1])
def test_more_rows_than_there_are_cannot_be_kept(count, small, loaded):
    with pytest.raises(ValueError, match="more rows to keep than there are"):
        loaded.call("specdec_session_select", small.pointer, count, small.numbers)


@pytest.mark.parametrize("rows, changes, reason", [
    (1, {}, "a session or a table of another size"),
    (2, {"drafter": None}, "drafts without a drafter"),
    (2, {"session": None}, "a session or a table of another size"),
    (2, {"positions": 2**62}, "an impossible number of positions"),
    (2, {"states": 8, "state_stride": 2**62}, "rows that are impossibly far apart"),
    (2, {"states": 8, "state_stride": -1}, "rows that are impossibly far apart"),
    *((2, {"block": size}, "no or too many tokens") for size in (0, -1, 2**24, -(2**63))),
    (2, {"block": 2}, "drafts of another width"),
])  # fmt: skip
def test_drafts_of_another_size_are_refused(rows, changes, reason, small):
    small.verify(small.drafts(small.drafter(2)))
    with pytest.raises(ValueError, match=reason):
        small.verify(small.drafts(small.drafter(rows), **changes))


@pytest.mark.parametrize("changes, reason", [
    ({"rows": 1}, "sources of another number of rows"),
    ({"max_suffix": -1}, "a suffix of impossible length"),
    ({"ends": (ctypes.c_int64 * 2)(3, 3)}, "a source of impossible length"),
    ({"ends": (ctypes.c_int64 * 2)(-1, 3)}, "a source of impossible length"),
    ({"origin": (ctypes.c_int64 * 2)(0, -1)}, "a row of an impossible number"),
    ({"begin": (ctypes.c_int64 * 2)(0, 2**62)}, "a draft that began at an impossible place"),
    ({"seen": (ctypes.c_int64 * 2)(-1, 0)}, "a draft that began at an impossible place"),
])  # fmt: skip
def test_copies_of_impossible_sources_are_refused(changes, reason, small):
    pair = ctypes.c_int64 * 2
    kept = {"tokens": (ctypes.c_int64 * 6)(), "ends": pair(3, 6), "origin": pair(0, 1)}
    kept.update(begin=pair(), seen=pair())
    kept.update({name: value for name, value in changes.items() if name in kept})
    copy = SourceCopy(rows=2, **{name: ctypes.addressof(each) for name, each in kept.items()})
    for name in changes.keys() - kept.keys():
        setattr(copy, name, changes[name])
    with pytest.raises(ValueError, match=reason):
        small.verify(small.drafts(Drafting(block=1), copy=ctypes.addressof(copy)))


def test_impossible_lengths_are_refused_before_a_draft(small):
    """Room was computed from them first, which overflowed: the sanitizers saw it."""
    call = small.drafts(small.drafter(2), positions=12)
    small.kept[3][0] = -(2**63)
    with pytest.raises(ValueError, match="impossible lengths"):
        small.verify(call)


def test_a_drafter_reads_as_many_hidden_states_as_there_are(small, loaded):
    drafting, read = small.drafter(2), (ctypes.c_int32 * 1)(1)
    states = NativeLinear(loaded, torch.zeros(32, 32), None, "fp32")
    loaded.call("specdec_drafter_states", ctypes.c_void_p(drafting.drafter), 2, states.pointer)
    call = small.drafts(drafting, states=small.seconds, state_stride=4)
    call.read_count, call.read, call.outputs.states = 1, read, small.seconds
    with pytest.raises(ValueError, match="a drafter that reads other hidden states"):
        small.verify(call)


@pytest.mark.parametrize("name, value", [("columns", -1), ("columns", 2**62)])
def test_drafts_after_impossible_outputs_are_refused(name, value, small, loaded):
    tokens, drafting, outputs = torch.zeros(16).long(), small.drafter(2), small.hypotheses
    arguments = ctypes.byref(drafting), 2, ctypes.byref(outputs), *[tokens.data_ptr()] * 2
    loaded.call("specdec_draft", *arguments)
    setattr(outputs, name, value)
    with pytest.raises(ValueError, match="impossibl"):
        loaded.call("specdec_draft", *arguments)


def test_a_search_ends_where_its_session_was_opened_for_others(small, loaded):
    beams, passes, states = ctypes.c_void_p(), ctypes.c_int64(), torch.zeros(1, 1, 16)
    setup = BeamSetup(small.embedding, small.rules, 2, 2)
    loaded.call("specdec_beams_new", small.pointer, ctypes.byref(setup), ctypes.byref(beams))
    loaded.call("specdec_session_open", small.pointer, 1, 1, 16, states.data_ptr(), None, 4)
    with pytest.raises(ValueError, match="a session of another batch"):
        loaded.call("specdec_beams_run", beams, 3, ctypes.byref(passes))
    loaded.free("specdec_beams_free", beams)


@pytest.mark.parametrize("rows", [WORDS_OF_TOYS - 1, WORDS_OF_TOYS + 1])
def test_a_chain_of_another_vocabulary_is_refused(rows, loaded):
    """It has two tables of a row for each word, which the library looks up by token."""
    model = copy.deepcopy(toy_attached_drafter("post_norm", 4, 80, chain_width=16))
    drafter = NarBlockDrafter(model, DraftOptions(4, PAD, EOS, "fp32"))
    words = make_task().tgt_dict

    def built():
        settings = decoding_settings(backend="native")
        generator = build_generator(
            [toy_model()], words, words, flags(), settings, overrides=Overrides(drafter)
        )
        return generator.generate(generator.models, make_sample(sentences(2, seed=1)))

    assert built()
    decoder = model.decoder
    decoder.embed_tokens = torch.nn.Embedding(rows, decoder.embed_tokens.weight.size(1))
    with pytest.raises(ValueError, match="the chain's tables have .* rows, the vocabulary"):
        built()


@pytest.mark.parametrize("width", [15, 17])
def test_a_mask_of_another_width_is_refused(width, small, loaded):
    mask, drafter = torch.zeros(width), ctypes.c_void_p()
    with pytest.raises(ValueError, match="wrong size: the mask's embedding"):
        loaded.call("specdec_drafter_new", small.stack.pointer, width, mask.data_ptr(), 1,
                    ctypes.byref(drafter))  # fmt: skip


@pytest.mark.parametrize("size", [(31, 32), (32, 31), (32, 16)])
def test_products_of_hidden_states_of_another_size_are_refused(size, small, loaded):
    drafter = ctypes.c_void_p(small.drafter(2).drafter)
    states = NativeLinear(loaded, torch.zeros(*size), None, "fp32")
    with pytest.raises(ValueError, match="wrong size: products of hidden states"):
        loaded.call("specdec_drafter_states", drafter, 2, states.pointer)
