"""Decoders and encoders on the native library against those on torch, and their bits."""

import copy
import inspect
import re

import pytest
import torch
from fairseq import utils
from toy_drafter import make_verifier
from toy_hypotheses import chain_layout
from toy_translation import (
    EOS,
    PAD,
    SHAPES,
    WORDS,
    both,
    make_sample,
    make_task,
    sentences,
    toy_model,
)

from fairseq_specdec.engine.backend import TORCH, NativeBackend
from fairseq_specdec.engine.native.stack import refusal
from fairseq_specdec.engine.state import Layout
from fairseq_specdec.engine.transformer import Transformer

SENTENCES = sentences(7, seed=3)
# (embedding width, heads, feed-forward width): head widths 8 to 128, and what no vector divides.
SIZES = [(8, 1, 16), (36, 3, 72), (50, 5, 33), (65, 1, 130), (128, 1, 64), (160, 2, 48)]

# What fairseq calls its activations.
NAMES = re.findall(r'activation == "(\w+)"', inspect.getsource(utils.get_activation_fn))


def random_model(width, heads, inner, **more):
    torch.manual_seed(width)
    sides = both(embed_dim=width, ffn_embed_dim=inner, attention_heads=heads)
    return make_verifier(make_task(), share_all_embeddings=True, **sides, **more)[0].eval()


def opened(model, backend, sample, read_layers=(), capacity=4):
    weights = Transformer.read(model, backend, read_layers)
    return weights.open(weights.encode(sample["net_input"]), 60, capacity)


@pytest.fixture
def native(loaded):
    return NativeBackend(loaded)


def random_tokens(generator, rows, width):
    return torch.randint(4, 4 + WORDS, (rows, width), generator=generator)


def scored(session, tokens, layout):
    features = session.run(tokens, layout)
    return session.logits(features)


def agree(sessions, generator, seed):
    """Run the same blocks through both sessions: ragged rows, rows that leave."""
    lengths = [0] * len(SENTENCES)
    for step in range(6):
        rows, width = len(lengths), int(torch.randint(1, 9, (1,), generator=generator))
        tokens = random_tokens(generator, rows, width)
        layout = chain_layout(lengths, width)
        ours, theirs = (scored(session, tokens, layout) for session in sessions)
        torch.testing.assert_close(ours, theirs, atol=3e-5, rtol=1e-5)
        states, expected = (session.states[:, : layout.upto] for session in sessions)
        torch.testing.assert_close(states, expected, atol=3e-5, rtol=1e-5)
        kept = torch.randint(1, width + 1, (rows,), generator=generator).tolist()
        lengths = [have + more for have, more in zip(lengths, kept)]
        if step in (1, 3):
            stay = [row for row in range(rows) if (row + seed) % 3 != 0]
            for session in sessions:
                session.keep(torch.tensor(stay), len(stay))
            lengths = [lengths[row] for row in stay]


@pytest.mark.parametrize("shape", SHAPES)
def test_trained_models_score_as_on_torch(shape, native):
    model, sample = toy_model(shape), make_sample(SENTENCES, left=len(shape) % 2 == 0)
    layers = sorted({1, len(model.decoder.layers)})
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        agree([opened(model, b, sample, layers) for b in (native, TORCH)], generator, 0)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_any_width_scores_as_on_torch(size, native):
    pre_norm = SIZES.index(size) % 2 == 0
    norms = {"encoder_normalize_before": pre_norm, "decoder_normalize_before": pre_norm}
    model, sample = random_model(*size, **norms), make_sample(SENTENCES)
    generator = torch.Generator().manual_seed(size[0])
    with torch.no_grad():
        agree([opened(model, b, sample, (1, 2)) for b in (native, TORCH)], generator, 1)


@pytest.mark.parametrize("name", NAMES)
def test_activations_of_extreme_numbers_are_as_on_torch(name, native):
    model, inputs = random_model(*SIZES[0], activation_fn=name), make_sample(SENTENCES)["net_input"]
    assert refusal(model.decoder) is refusal(model.encoder) is None
    words = inputs["src_tokens"].t() != PAD
    for value in (-3e38, -87.5, -9.1, 8.9, 3e4):
        if value < -1e30 and name == "linear":
            continue  # its products are infinite
        for layer in model.encoder.layers:
            torch.nn.init.zeros_(layer.fc1.weight)
            torch.nn.init.constant_(layer.fc1.bias, value)
        with torch.no_grad():
            mine, theirs = (
                Transformer.read(model, each).encode(inputs)["encoder_out"][0]
                for each in (native, TORCH)
            )
        torch.testing.assert_close(mine[words], theirs[words], atol=3e-5, rtol=1e-5)


@pytest.mark.parametrize("wanted", [None, 1, 3])
def test_a_block_of_masks_runs_as_on_torch(wanted, native):
    """As block drafters run: masks see one another, and only their features are wanted."""
    model, sample = toy_model("pre_norm"), make_sample(SENTENCES)
    generator = torch.Generator().manual_seed(4)
    rows, width, size = len(SENTENCES), 5, model.decoder.embed_dim
    x = torch.randn(rows, width, size, generator=generator)
    lengths = torch.arange(rows) % 3
    slots = lengths.unsqueeze(1) + torch.arange(width)
    seen = (torch.arange(9) < 4 + slots[:, :1]).view(rows, 1, 9).expand(rows, width, 9)
    by_backend = []
    for backend in (native, TORCH):
        with torch.no_grad():
            session = opened(model, backend, sample, capacity=16)
            prefix = torch.full((rows, 3), EOS)
            session.run(prefix, chain_layout([0] * rows, 3))
            features = session.run_embedded(x, Layout(slots, slots, 9, seen=seen), wanted=wanted)
            assert features.shape == (rows, wanted or width, size)
            by_backend.append(features)
    torch.testing.assert_close(*by_backend, atol=3e-5, rtol=1e-5)


@pytest.mark.parametrize("number_format", ["fp32", "bf16", "int8", "int7", "halves"])
def test_a_row_has_the_same_bits_at_any_width_and_in_any_batch(loaded, number_format):
    """The contract that lossless strategies rest on in every number format. The shortest source has
    padding on its left or right in a batch."""
    model = toy_model("pre_norm")
    if number_format == "halves":
        model, number_format = copy.deepcopy(model).half().float(), "fp32"
    backend = NativeBackend(loaded, number_format)
    generator = torch.Generator().manual_seed(1)
    tokens = torch.cat([torch.full((1, 1), EOS), random_tokens(generator, 1, 29)], 1)
    source = min(SENTENCES, key=len)
    with torch.no_grad():
        whole = None
        for others, left in (((), True), (SENTENCES, True), (SENTENCES, False)):
            sample = make_sample([source, *others], left)
            rows = 1 + len(others)
            for widths in ([30], [1] * 30, [7, 1, 13, 9], [2] * 15):
                session = opened(model, backend, sample)
                pieces, at = [], 0
                for width in widths:
                    block = random_tokens(generator, rows, width)
                    block[0] = tokens[0, at : at + width]
                    layout = chain_layout([at] * rows, width)
                    logits = scored(session, block, layout)
                    pieces.append(logits[0])
                    at += width
                pieces = torch.cat(pieces)
                whole = pieces if whole is None else whole
                assert torch.equal(pieces, whole)


def test_batches_of_any_shape_take_turns_in_the_same_buffers(native):
    """Many rows of few slots, then few rows of many, whose cache also grows: as if each came first,
    and as in a cache that need not grow. Heads 25 wide leave padding in the cache, which must stay
    0."""
    model = random_model(50, 2, 33)
    reused = Transformer.read(model, native)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for rows, slots in ((7, 4), (1, 70), (3, 20), (5, 90), (1, 4)):
            sample, logits = make_sample(SENTENCES[:rows]), []
            tokens = random_tokens(generator, rows, 160)
            new = Transformer.read(model, native)
            for weights, room in ((reused, slots), (new, slots), (new, 200)):
                session = weights.open(weights.encode(sample["net_input"]), 200, room)
                for begin in range(0, 160, 20):
                    lengths = [begin] * rows
                    layout = chain_layout(lengths, 20)
                    logits.append(scored(session, tokens[:, begin : begin + 20], layout))
                session.close()
            assert all(map(torch.equal, logits[:16], logits[8:])), (rows, slots)


def test_rows_to_keep_are_checked(native):
    session = opened(toy_model(), native, make_sample(SENTENCES[:3]))
    for rows in ([0, 3], [1, 0], [-1], [1, 1]):
        with pytest.raises(ValueError, match="ascending row numbers"):
            session.keep(torch.tensor(rows), len(rows))
