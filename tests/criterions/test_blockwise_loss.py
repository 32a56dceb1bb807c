"""The heads' loss against a slow version, and the draw of the heads."""

import collections
import math

import pytest
import torch
from fairseq.logging import metrics
from toy_blockwise import make_batch, make_blockwise, teach
from toy_translation import PAD, make_task, sentences

from fairseq_specdec.criterions import BlockwiseLoss, BlockwiseLossConfig
from fairseq_specdec.criterions.blockwise_loss import draw_head

SOURCES = sentences(7, seed=5) + [[3]]
BATCH = make_batch(SOURCES)


def criterion(**settings):
    return BlockwiseLoss(
        BlockwiseLossConfig(**dict({"label_smoothing": 0.0, "seed": 1}, **settings)), make_task()
    )


def toy(**settings):
    torch.manual_seed(2)
    return teach(make_blockwise(**dict({"block_size": 3}, **settings))[0], 12, BATCH)


def slow_sums(model, heads, epsilon):
    """Each head's summed loss and nll, places, and right ones by place: one place at a time."""
    net_input, target = BATCH["net_input"], BATCH["target"]
    with torch.no_grad():
        encoder_out = model.encoder(net_input["src_tokens"], net_input["src_lengths"])
        features, _ = model.decoder(
            net_input["prev_output_tokens"], encoder_out, features_only=True
        )
        scores = {h: model.decoder.output_layer(features, h).log_softmax(-1) for h in heads}
    sums = {head: [0.0, 0.0, 0] for head in heads}
    right = {}
    for head in heads:
        for row in range(target.size(0)):
            length = int(target[row].ne(PAD).sum())
            for place in range(length - head + 1):
                gold = int(target[row, place + head - 1])
                here = scores[head][row, place]
                nll = -float(here[gold])
                others = -float(here.sum()) + float(here[gold])
                each = epsilon / (here.numel() - 1)
                sums[head][0] += (1 - epsilon) * nll + each * others
                sums[head][1] += nll
                sums[head][2] += 1
                right[head, row, place] = int(here.argmax()) == gold
    return sums, right


@pytest.mark.parametrize("first_head", ["identity", "learned"])
@pytest.mark.parametrize("freeze", [False, True])
def test_validation_equals_a_slow_reference(first_head, freeze):
    model = toy(first_head=first_head, freeze_base=freeze)
    with torch.no_grad():
        loss, size, log = criterion(label_smoothing=0.1)(model, BATCH)
    sums, right = slow_sums(model, [1, 2, 3], 0.1)
    trained = [2, 3] if freeze and first_head == "identity" else [1, 2, 3]
    assert model.trained_heads() == trained
    assert float(size) == sums[trained[0]][2]
    mean = sum(sums[h][0] / sums[h][2] for h in trained) / len(trained)
    assert math.isclose(float(loss) / float(size), mean, rel_tol=1e-4)
    mean = sum(sums[h][1] / sums[h][2] for h in trained) / len(trained)
    assert math.isclose(float(log["nll_loss"]) / float(size), mean, rel_tol=1e-4)
    for head in (1, 2, 3):
        assert int(log[f"n_head_{head}"]) == sums[head][2]
        hits = sum(hit for (h, _, _), hit in right.items() if h == head)
        assert int(log[f"n_right_{head}"]) == hits
    assert int(log["n_right_2"]) > 0

    emitted = blocks = 0
    for head, row, place in right:
        if head == 2:
            blocks += 1
            emitted += 1 + right[2, row, place]
            emitted += right[2, row, place] and right.get((3, row, place), False)
    assert (int(log["n_accepted"]), int(log["n_blocks"])) == (emitted, blocks)


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("first_head", ["identity", "learned"])
def test_a_batch_trains_one_head_and_every_parameter_has_a_gradient(first_head, freeze):
    """Data-parallel training waits for all of them."""
    model = toy(first_head=first_head, freeze_base=freeze).train()
    sums, _ = slow_sums(model, [1, 2, 3], 0.0)
    heads, seen = model.decoder.block_heads, set()
    for update in range(1, 16):
        model.set_num_updates(update)
        loss, size, log = criterion()(model, BATCH)
        (head,) = [h for h in (1, 2, 3) if f"n_head_{h}" in log]
        assert math.isclose(float(loss.detach()), sums[head][0], rel_tol=1e-4)
        assert int(size) == sums[head][2]
        model.zero_grad(set_to_none=True)
        loss.backward()
        assert not [n for n, p in model.named_parameters() if p.requires_grad and p.grad is None]
        rows = heads.output.weight.grad.view(len(heads.learned), heads.dim, -1).abs().sum((1, 2))
        trained = [h for h, grad in zip(heads.learned, rows.tolist()) if grad > 0]
        assert trained == [head] * (head in heads.learned)
        seen.add(head)
    assert seen == set(model.trained_heads())


def test_a_head_that_is_not_drawn_has_a_gradient_of_zeros_also_if_it_overflows():
    model = toy(first_head="identity").train()
    with torch.no_grad():
        model.decoder.block_heads.hidden.weight.fill_(3e38)
    model.zero_grad(set_to_none=True)
    update = next(u for u in range(1, 50) if draw_head([1, 2, 3], 1, u, 0) == 1)
    model.set_num_updates(update)
    loss, _, _ = criterion()(model, BATCH)
    loss.backward()
    assert torch.isfinite(loss)
    for parameter in model.decoder.block_heads.parameters():
        assert parameter.grad.eq(0).all()


def test_draws_are_uniform_and_the_same_everywhere():
    draws = [draw_head([2, 3, 4, 5], 7, update, 0) for update in range(2000)]
    assert draws == [draw_head([2, 3, 4, 5], 7, update, 0) for update in range(2000)]
    counts = collections.Counter(draws)
    # Chi-square with 3 degrees of freedom exceeds 16.3 once in a thousand times.
    assert sum((counts[h] - 500) ** 2 / 500 for h in (2, 3, 4, 5)) < 16.3
    assert draws != [draw_head([2, 3, 4, 5], 8, update, 0) for update in range(2000)]
    assert len({draw_head([2, 3, 4, 5], 7, 1, part) for part in range(30)}) == 4


def test_sentences_too_short_for_a_head():
    model = toy(block_size=6, first_head="learned").train()
    batch = make_batch([[1], [5]])
    loss, size, log = criterion(mean_of_heads=True)(model, batch)
    loss.backward()
    assert int(log["n_head_6"]) == 0 and torch.isfinite(loss)
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_logs_of_workers_add_up():
    model, halves = toy(), [make_batch(SOURCES[:4]), make_batch(SOURCES[4:])]
    with torch.no_grad():
        logs = [criterion()(model, half)[2] for half in halves]
    with metrics.aggregate() as values:
        BlockwiseLoss.reduce_metrics(logs)
    logged = values.get_smoothed_values()
    n_right = sum(int(log["n_right_2"]) for log in logs)
    n_head = sum(int(log["n_head_2"]) for log in logs)
    assert logged["head_2_accuracy"] == pytest.approx(100 * n_right / n_head, abs=0.01)
    assert 1 <= logged["accepted"] <= 3
    assert {"loss", "nll_loss", "ppl", "head_1_accuracy", "head_3_accuracy"} <= set(logged)


def test_only_blockwise_models_are_trained():
    with pytest.raises(ValueError, match="--criterion blockwise_loss .* --arch blockwise"):
        criterion()(torch.nn.Linear(1, 1), BATCH)
    with pytest.raises(ValueError, match="--label-smoothing 1.0: must be from 0 to below 1"):
        criterion(label_smoothing=1.0)
