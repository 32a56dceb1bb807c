"""The averaged loss of Kim et al. 2023, section 7.2.1, against fairseq's own cross-entropy."""

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.logging import metrics
from toy_early_exit import build, make_batch
from toy_translation import PAD, ids, make_sample, make_task, sentences, toy_model, translate

from fairseq_specdec.criterions import EarlyExitLoss, EarlyExitLossConfig

SOURCES = sentences(6, seed=4)


def batch():
    return make_batch(make_sample(SOURCES), [ids(translate(s)) for s in SOURCES])


def make_criterion(**settings):
    given = dict({"sentence_avg": False}, **settings)
    return EarlyExitLoss(EarlyExitLossConfig(**given), make_task())


def fairseqs(logits, target, epsilon):
    loss, nll = label_smoothed_nll_loss(
        logits.log_softmax(-1).flatten(0, 1), target.flatten(), epsilon, ignore_index=PAD
    )
    return loss, nll


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_is_the_average_of_both_depths(epsilon):
    torch.manual_seed(1)
    model, sample = build(), batch()
    loss, size, log = make_criterion(label_smoothing=epsilon)(model, sample)
    whole, extra = model(**sample["net_input"])
    late, late_nll = fairseqs(whole, sample["target"], epsilon)
    early, early_nll = fairseqs(extra["exit_logits"], sample["target"], epsilon)
    torch.testing.assert_close(loss, (late + early) / 2)
    torch.testing.assert_close(log["nll_loss"], late_nll)
    torch.testing.assert_close(log["exit_nll_loss"], early_nll)
    assert size == sample["ntokens"]

    # Both losses reach the first layer, the last only the whole decoder's.
    names = ["decoder.layers.0.fc1.weight", "decoder.layers.2.fc1.weight"]
    parameters = dict(model.named_parameters())
    chosen = [parameters[name] for name in names]
    ours = torch.autograd.grad(loss, chosen)
    theirs = torch.autograd.grad((late + early) / 2, chosen)
    for mine, other in zip(ours, theirs):
        torch.testing.assert_close(mine, other)
        assert float(mine.abs().sum()) > 0


def test_logs_both_losses_and_how_often_both_agree():
    torch.manual_seed(1)
    model, sample = build(), batch()
    logs = [make_criterion()(model, sample)[2] for _ in range(2)]
    with metrics.aggregate(new_root=True) as meters:
        EarlyExitLoss.reduce_metrics(logs)
    values = meters.get_smoothed_values()
    assert values["nll_loss"] > 0 and values["exit_nll_loss"] > 0
    assert values["loss"] == pytest.approx(
        (values["nll_loss"] + values["exit_nll_loss"]) / 2, abs=2e-3
    )
    whole, extra = model(**sample["net_input"])
    learnt = sample["target"] != PAD
    agreement = (whole.argmax(-1) == extra["exit_logits"].argmax(-1))[learnt].float().mean()
    assert values["agreement"] == pytest.approx(100 * float(agreement), abs=0.01)


def test_refuses_models_without_exit():
    with pytest.raises(ValueError, match="--arch early_exit_transformer"):
        make_criterion()(toy_model(updates=1), batch())
