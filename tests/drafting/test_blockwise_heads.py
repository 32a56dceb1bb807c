"""Blockwise parallel decoding against a slow, plain, uncached version of Stern et al. 2018."""

import math

import pytest
import torch
from toy_blockwise import make_batch, make_blockwise, save_checkpoint, teach, toy_blockwise
from toy_strategies import check, stock
from toy_strategies import flags as toy_flags
from toy_translation import (
    EOS,
    FIRST,
    PAD,
    ids,
    make_sample,
    make_task,
    sentences,
    toy_model,
    translate,
)

from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding import builder
from fairseq_specdec.decoding.builder import build_generator
from fairseq_specdec.engine.torch_decoder import TorchSession

SENTENCES = sentences(16, seed=7)
FLAGS = {"max_len_a": 0, "max_len_b": 40}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("blockwise")


def flags(**changes):
    return toy_flags(**dict(FLAGS, **changes))


def decode(models, sample, args=None, strategy="blockwise", words=None, **settings):
    words = words or make_task().tgt_dict
    if strategy == "blockwise":  # whole blocks, as the slow version drafts them
        settings.setdefault("draft_budget", 0)
    generator = build_generator(
        models, words, words, args or flags(), decoding_settings(strategy=strategy, **settings)
    )
    return [h[0] for h in generator.generate(models, sample)], generator.stats


def slow_blockwise(model, source, size, accepts, minimum=1):
    """Section 3, predict and verify apart, with stock forward passes and nothing cached.

    Returns:
        (tokens, sizes of the accepted blocks).
    """
    net_input = make_sample([source])["net_input"]
    limit = FLAGS["max_len_b"]
    with torch.no_grad():
        encoder_out = model.encoder(net_input["src_tokens"], net_input["src_lengths"])

        def scores(tokens, head):
            """Log-probabilities of what head ``head`` predicts at every place."""
            previous = torch.tensor([[EOS] + tokens])
            features, _ = model.decoder(previous, encoder_out, features_only=True)
            log_probs = model.decoder.output_layer(features, head)[0].log_softmax(-1)
            log_probs[:, PAD] = -math.inf
            return log_probs

        tokens, sizes = [], []
        while not tokens or tokens[-1] != EOS:
            start = len(tokens)
            # Predict.
            block = [int(scores(tokens, head)[-1].argmax()) for head in range(1, size + 1)]
            # Verify: the first one stands by definition.
            verified = scores(tokens + block, 1)[start:]
            accepted = 1
            while accepted < size and accepts(block[accepted], verified[accepted]):
                accepted += 1
            accepted = max(accepted, min(minimum, size))
            block = block[:accepted]
            if EOS in block:
                block = block[: block.index(EOS) + 1]
            tokens += block
            sizes.append(len(block))
            if len(tokens) > limit:
                tokens = tokens[:limit] + [EOS]
    return tokens, sizes


def exactly(token, scores):
    return token == int(scores.argmax())


MODELS = [
    {"block_size": 4, "freeze_base": True},
    {"block_size": 3, "first_head": "learned", "freeze_base": True},
    {"block_size": 4, "shape": "pre_norm"},
    {"block_size": 4, "shape": "narrow_output", "first_head": "learned"},
]


@pytest.mark.parametrize("settings", MODELS, ids=str)
def test_equals_the_slow_version(folder, settings):
    model = toy_blockwise(folder, **settings)
    size = settings["block_size"]
    ours, stats = decode([model], make_sample(SENTENCES))
    assert stats.mean_accepted_tokens > 1.2
    for hypo, source in zip(ours, SENTENCES):
        tokens, sizes = slow_blockwise(model, source, size, exactly)
        assert hypo["tokens"].tolist() == tokens
        # Merging predict and verify leaves one invocation a block, and the first prediction; a
        # block's own token came with the verification before it, so the last may be spared.
        assert hypo["steps"] in (len(sizes), len(sizes) + 1)


@pytest.mark.parametrize("first_head", ["identity", "learned"])
@pytest.mark.parametrize("strategy", ["blockwise", "greedy", "iad"])
def test_a_blockwise_model_is_a_verifier(folder, strategy, first_head):
    """Head 1 is the model's output, for stock fairseq and for every strategy."""
    model = toy_blockwise(folder, block_size=3, first_head=first_head, freeze_base=True)
    sample = make_sample(SENTENCES)
    reference = stock([model], sample, flags())
    check(decode([model], sample, strategy=strategy)[0], reference)
    base = stock([toy_model()], sample, flags())
    score = float(sum(h["score"] for h in reference))
    theirs = float(sum(h["score"] for h in base))
    assert (abs(score - theirs) < 1e-4) == (first_head == "identity")


def test_the_first_of_an_ensemble_drafts(folder):
    models = [toy_blockwise(folder, block_size=4, freeze_base=True), toy_model("pre_norm")]
    sample = make_sample(SENTENCES)
    ours, stats = decode(models, sample)
    check(ours, stock(models, sample, flags()))
    assert stats.mean_accepted_tokens > 1.1
    with pytest.raises(ValueError, match="--path holds a TransformerModel, and --strategy blockw"):
        decode(models[::-1], sample)


def test_a_smaller_block_uses_the_first_heads(folder):
    model = toy_blockwise(folder, block_size=4, freeze_base=True)
    for size in (1, 2):
        ours, stats = decode([model], make_sample(SENTENCES), block_size=size)
        check(ours, stock([model], make_sample(SENTENCES), flags()))
        assert stats.drafted <= (size - 1) * stats.iterations
    with pytest.raises(ValueError, match="--block-size 5: the model of --path has 4 heads"):
        decode([model], make_sample(SENTENCES), block_size=5)
    with pytest.raises(ValueError, match="--min-block-size 5: at most the model's block size"):
        decode([model], make_sample(SENTENCES), min_block_size=5)


def test_new_weights_are_read_after_refresh(folder):
    torch.manual_seed(1)
    model, _ = make_blockwise(folder / "post_norm.pt", block_size=3, freeze_base=True)
    words, sample = make_task().tgt_dict, make_sample(SENTENCES)
    generator = build_generator(
        [model], words, words, flags(), decoding_settings(strategy="blockwise", draft_budget=0)
    )
    generator.generate([model.eval()], sample)
    before = generator.stats.accepted
    teach(model, 60)
    generator.refresh()
    generator.generate([model], sample)
    assert generator.stats.accepted - before > 2 * before


@pytest.fixture(scope="module")
def fluent(folder):
    """A model that knows a few sentences by heart: all of its drafts are right."""
    save_checkpoint(folder / "base.pt", toy_model())
    torch.manual_seed(4)
    model, _ = make_blockwise(folder / "base.pt", block_size=4)
    chosen = SENTENCES[:5]
    return teach(model, 120, make_batch(chosen)), chosen


@pytest.mark.usefixtures("on_torch")
@pytest.mark.parametrize("size", [2, 3, 4])
def test_perfect_heads_need_m_over_k_plus_one_invocations(fluent, monkeypatch, size):
    """Section 4: every model invocation is counted, the drafter's too if it had any."""
    model, chosen = fluent
    monkeypatch.setattr(builder, "check_verifier", lambda *given: None)  # it runs the model too
    runs = []
    run = TorchSession.run_embedded
    forward = type(model.decoder).forward
    monkeypatch.setattr(
        TorchSession, "run_embedded", lambda *a, **k: runs.append(1) or run(*a, **k)
    )
    monkeypatch.setattr(
        type(model.decoder), "forward", lambda *a, **k: runs.append(1) or forward(*a, **k)
    )
    for source in chosen:
        runs.clear()
        ours, _ = decode([model], make_sample([source]), block_size=size)
        expected = ids(translate(source))
        assert ours[0]["tokens"].tolist() == expected
        assert len(runs) == 1 + math.ceil((len(expected) - 1) / size)
        assert len(runs) <= math.ceil(len(expected) / size) + 1


def near(epsilon):
    """Section 5.2 on the toy language, whose word wN is token FIRST + N."""

    def accepts(token, scores):
        best = int(scores.argmax())
        both_are_words = min(token, best) >= FIRST
        return token == best or (both_are_words and abs(token - best) <= epsilon)

    return accepts


@pytest.mark.parametrize(
    "settings, accepts, minimum",
    [
        ({"accept_top_k": 3}, lambda t, s: int((s > s[t]).sum()) < 3, 1),
        ({"accept_epsilon": 4.0}, near(4), 1),
        ({"min_block_size": 4}, exactly, 4),
        ({"min_block_size": 3, "accept_epsilon": 4.0}, near(4), 3),
    ],
    ids=lambda value: "" if callable(value) else str(value),
)
def test_approximate_decoding_equals_the_slow_version(folder, settings, accepts, minimum):
    model = toy_blockwise(folder, block_size=4, freeze_base=True)
    words = make_task().tgt_dict
    numbers = make_task().tgt_dict
    numbers.symbols[FIRST:] = [str(i) for i in range(len(numbers) - FIRST)]
    chosen = numbers if "accept_epsilon" in settings else words
    ours, stats = decode([model], make_sample(SENTENCES), words=chosen, **settings)
    exact, exact_stats = decode([model], make_sample(SENTENCES))
    assert stats.mean_accepted_tokens >= exact_stats.mean_accepted_tokens
    for hypo, source in zip(ours, SENTENCES):
        expected = slow_blockwise(model, source, 4, accepts, minimum)[0]
        assert hypo["tokens"].tolist() == expected
    same = all(a["tokens"].tolist() == b["tokens"].tolist() for a, b in zip(ours, exact))
    assert same == (accepts is exactly and minimum == 1)
    if "accept_epsilon" in settings:
        with pytest.raises(ValueError, match="--accept-epsilon: the dictionary holds 'w0'"):
            decode([model], make_sample(SENTENCES), words=words, **settings)
