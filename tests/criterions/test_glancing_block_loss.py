import math

import pytest
import torch
from fairseq.logging import metrics
from toy_drafter import PAD, ToyTask, make_batch, make_drafter, save_verifier

from fairseq_specdec.criterions import GlancingBlockLoss, GlancingBlockLossConfig
from fairseq_specdec.models import AttachedDrafter
from fairseq_specdec.training.block_noising import block_targets, fixed_cuts


def make_criterion(task=None, **settings):
    settings = dict({"label_smoothing": 0.0, "max_update": 100}, **settings)
    return GlancingBlockLoss(GlancingBlockLossConfig(**settings), task or ToyTask())


def slow_sums(model, batch, cuts, epsilon, decay):
    """Loss, weights, right ones and accepted tokens, a block and a position at a time."""
    size = model.decoder.block_size
    net_input, target = batch["net_input"], batch["target"]
    encoder_out = model.encoder(net_input["src_tokens"], src_lengths=net_input["src_lengths"])
    state = model.decoder.start_source(net_input["src_tokens"])
    features = model.decoder(net_input["prev_output_tokens"], encoder_out, cuts, state)
    log_p = torch.log_softmax(model.decoder.output_layer(features), -1)
    vocabulary = log_p.size(-1)
    sums = {"loss": 0.0, "nll_loss": 0.0, "sample_size": 0.0, "n_right": 0, "n_accepted": 0}
    for row in range(target.size(0)):
        length = int(target[row].ne(PAD).sum())
        for block in range(cuts.size(1)):
            unbroken = True
            start = int(cuts[row, block])
            gold_block = target[row, start : min(start + size, length)].tolist()
            for step, gold in enumerate(gold_block):
                here = log_p[row, block, step]
                nll = -float(here[gold])
                others = -float(here.sum()) + float(here[gold])
                loss = (1 - epsilon) * nll + epsilon / (vocabulary - 1) * others
                sums["loss"] += decay**step * loss
                sums["nll_loss"] += nll
                sums["sample_size"] += decay**step
                right = int(here.argmax()) == gold
                sums["n_right"] += right
                unbroken = unbroken and right
                sums["n_accepted"] += unbroken
            sums["n_accepted"] += 1
    return sums


def teach(model, batch, updates=12):
    """A few steps on one batch, so that some drafts are right."""
    criterion = make_criterion(glancing_start=0.0, glancing_stop=0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    model.train()
    for _ in range(updates):
        loss, size, _ = criterion(model, batch)
        optimizer.zero_grad()
        (loss / size).backward()
        optimizer.step()
    return model.eval()


@pytest.mark.parametrize("epsilon, decay", [(0.0, 1.0), (0.1, 0.8)])
def test_validation_equals_a_slow_reference(epsilon, decay):
    torch.manual_seed(0)
    batch = make_batch(rows=6)
    model = teach(make_drafter(num_cuts=2), batch)
    criterion = make_criterion(label_smoothing=epsilon, block_loss_decay=decay)
    loss, sample_size, log = criterion(model, batch)
    assert "glancing_ratio" not in log
    cuts = fixed_cuts(batch["id"], batch["target"].ne(PAD).sum(1), 2)
    expected = slow_sums(model, batch, cuts, epsilon, decay)
    assert 0 < expected["n_right"] < int(log["n_learnt"])
    assert expected["n_accepted"] > 12  # more than the one token per block that comes anyway
    assert math.isclose(float(loss.detach()), expected["loss"], rel_tol=1e-4)
    assert math.isclose(float(sample_size), expected["sample_size"], rel_tol=1e-5)
    for key, value in expected.items():
        assert math.isclose(float(log[key]), value, rel_tol=1e-4), key


def test_training_with_glancing_learns_hidden_positions_only(monkeypatch):
    torch.manual_seed(0)
    batch, seen = make_batch(rows=6), {}
    model = teach(make_drafter(num_cuts=2), batch).train()
    forward = model.forward

    def spy(*args, **kwargs):
        seen.update(kwargs, output=forward(*args, **kwargs))
        return seen["output"]

    monkeypatch.setattr(model, "forward", spy)
    model.set_num_updates(50)
    loss, sample_size, log = make_criterion()(model, batch)
    assert math.isclose(seen["glancing_ratio"], 0.4)
    assert math.isclose(float(log["glancing_ratio"]), 0.4 * log["n_blocks"], rel_tol=1e-6)
    targets, output = seen["targets"], seen["output"]
    valid, right = targets.ne(PAD), output["first_correct"]
    wrong = (valid & ~right).sum(-1)
    hidden = output["learnt"]
    assert not (hidden & ~valid).any() and right.any()
    assert torch.equal((valid & ~hidden).sum(-1), (wrong * 0.4 + 0.5).long())
    assert float(sample_size) == int(hidden.sum()) == output["logits"].size(0)
    gold = targets[hidden]
    expected = torch.nn.functional.cross_entropy(output["logits"], gold, reduction="sum")
    assert math.isclose(float(loss.detach()), float(expected.detach()), rel_tol=1e-5)
    leading = right.long().cumprod(-1).sum() + log["n_blocks"]
    assert int(log["n_accepted"]) == int(leading)


def test_everything_revealed_is_no_division_by_zero(monkeypatch):
    batch, model = make_batch(), make_drafter().train()
    reveal_all = "fairseq_specdec.models.spec_drafter.choose_revealed"
    monkeypatch.setattr(reveal_all, lambda correct, valid, ratio: valid)
    loss, sample_size, log = make_criterion()(model, batch)
    loss.backward()
    assert float(loss.detach()) == 0.0 == float(sample_size)
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    with metrics.aggregate(new_root=True) as logged:
        GlancingBlockLoss.reduce_metrics([log])
    values = logged.get_smoothed_values()
    assert values["loss"] == 0.0 and math.isfinite(values["ppl"]) and values["accepted"] >= 1.0


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"label_smoothing": 1.0}, "--label-smoothing 1.0: must be"),
        ({"block_loss_decay": 0.0}, "--block-loss-decay 0.0: must be"),
        ({"max_update": 0}, "--glancing-updates.*--max-update"),
        ({"task": ToyTask(eval_bleu=True)}, "--eval-bleu: a drafter"),
        ({"task": ToyTask(left_pad_target=True)}, "--left-pad-target: a drafter"),
        ({"eval_verifier": "v.pt", "ddp_backend": "fully_sharded"}, "--eval-verifier: --ddp-"),
        ({"soft_targets": 0.5}, "--soft-targets.*--arch attached_drafter_base"),
        ({"model": torch.nn.Linear(1, 1)}, "--arch spec_drafter_base"),
    ],
)
def test_what_cannot_be_trained_is_refused_by_name(settings, message):
    model = settings.get("model") or make_drafter()
    given = {name: value for name, value in settings.items() if name != "model"}
    with pytest.raises(ValueError, match=message):
        make_criterion(**given)(model, make_batch())


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_soft_targets_are_what_the_verifier_expects_after_the_true_tokens(tmp_path, share):
    torch.manual_seed(1)
    save_verifier(tmp_path / "v.pt", decoder_output_dim=64)
    model = make_drafter(
        arch="attached_drafter_tiny", model=AttachedDrafter, attach_to=str(tmp_path / "v.pt")
    ).eval()
    batch = make_batch()
    hard, _, _ = make_criterion()(model, batch)
    mixed, _, _ = make_criterion(soft_targets=share)(model, batch)

    verifier, net_input, target = model.encoder.attached_to[0], batch["net_input"], batch["target"]
    expected = torch.softmax(verifier(**net_input)[0], -1)
    cuts = fixed_cuts(batch["id"], target.ne(PAD).sum(1), model.decoder.num_cuts)
    targets = block_targets(target, cuts, model.decoder.block_size, PAD)
    output = model(cuts=cuts, targets=targets, **net_input)
    log_p = iter(torch.log_softmax(output["logits"], -1))
    soft = 0.0
    for row, block, step in output["learnt"].nonzero().tolist():
        soft -= float((expected[row, int(cuts[row, block]) + step] * next(log_p)).sum().detach())
    assert float(mixed.detach()) == pytest.approx(
        (1 - share) * float(hard.detach()) + share * soft, rel=1e-4
    )
    assert soft != pytest.approx(float(hard.detach()), rel=2e-3)
