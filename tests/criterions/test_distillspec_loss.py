"""A small model that learns its verifier's distributions, from fixed targets and from its own."""

import copy

import pytest
import torch
from fairseq.logging import metrics
from torch.distributions import Categorical, kl_divergence
from toy_blockwise import save_checkpoint
from toy_early_exit import make_batch
from toy_strategies import decode, flags, make_generator
from toy_translation import EOS, PAD, ids, make_sample, make_task, sentences, toy_model, translate

from fairseq_specdec.criterions import DistillSpecLoss, DistillSpecLossConfig
from fairseq_specdec.criterions.distillspec_loss import DIVERGENCES

SOURCES = sentences(6, seed=4)


def batch():
    return make_batch(make_sample(SOURCES), [ids(translate(s)) for s in SOURCES])


def student():
    return copy.deepcopy(toy_model("learned", seed=2, updates=60)).train()


@pytest.fixture(scope="module")
def verifier(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "verifier.pt"
    save_checkpoint(path, toy_model())
    return str(path)


def make(big, **settings):
    given = dict({"verifier": big, "sentence_avg": False}, **settings)
    return DistillSpecLoss(DistillSpecLossConfig(**given), make_task())


def mixture(p, q):
    return Categorical(probs=(p.probs + q.probs) / 2)


BY_DEFINITION = {
    "forward-kl": kl_divergence,
    "reverse-kl": lambda p, q: kl_divergence(q, p),
    "jsd": lambda p, q: (kl_divergence(p, mixture(p, q)) + kl_divergence(q, mixture(p, q))) / 2,
    "tvd": lambda p, q: (p.probs - q.probs).clamp(min=0).sum(-1),
}


def logits():
    torch.manual_seed(1)
    mine, theirs = 2 * torch.randn(2, 7, 11, dtype=torch.double)
    return mine.requires_grad_(), theirs


@pytest.mark.parametrize("name", DIVERGENCES)
def test_is_its_definition_with_its_gradient(name):
    mine, theirs = logits()
    own = mine.detach().clone().requires_grad_()
    expected = BY_DEFINITION[name](Categorical(logits=theirs), Categorical(logits=own))
    got = DIVERGENCES[name](mine, theirs)
    assert got.shape == (7,) and got.dtype == torch.float32
    torch.testing.assert_close(got.double(), expected, atol=1e-5, rtol=1e-5)
    weights = torch.arange(1.0, 8.0)  # rows must not be mixed up
    (got * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(mine.grad, own.grad, atol=1e-5, rtol=1e-4)
    far = torch.tensor([[90.0, 0.0, -90.0]], dtype=torch.bfloat16)
    assert bool(torch.isfinite(DIVERGENCES[name](far, -far)).all())


@pytest.mark.parametrize("name", DIVERGENCES)
def test_is_the_divergence_at_each_target(verifier, name):
    model, sample = student().eval(), batch()
    loss, size, log = make(verifier, divergence=name)(model, sample)
    learnt = sample["target"] != PAD
    mine = model(**sample["net_input"])[0][learnt]
    theirs = toy_model()(**sample["net_input"])[0][learnt].detach()
    torch.testing.assert_close(loss, DIVERGENCES[name](mine, theirs).sum())
    assert size == sample["ntokens"] and log["n_own"] == 0
    kept = torch.minimum(mine.softmax(1), theirs.softmax(1)).sum()
    torch.testing.assert_close(log["n_kept"], kept.detach())
    assert log["n_equal"] == mine.argmax(1).eq(theirs.argmax(1)).sum()


@pytest.mark.parametrize("on_policy", [0.0, 1.0])
def test_only_the_student_learns(verifier, on_policy):
    criterion, model = make(verifier, on_policy=on_policy), student()
    loss, _, _ = criterion(model, batch())
    loss.backward()
    assert all(each.grad is not None for each in model.parameters())
    assert sum(float(each.grad.abs().sum()) for each in model.parameters()) > 0
    teacher = criterion._verifier[0]
    assert all(each.grad is None and not each.requires_grad for each in teacher.parameters())
    assert not teacher.training and model.training
    assert list(criterion.parameters()) == [] and criterion.state_dict() == {}


def test_samples_are_the_students_own_with_the_seed(verifier):
    criterion, model, sample = make(verifier, on_policy=1.0), student(), batch()
    width = sample["net_input"]["src_tokens"].size(1)
    args = flags(sampling=True, max_len_b=2 * width + 10)
    torch.manual_seed(5)
    wanted = decode(make_generator("greedy", args, [student().eval()]), make_sample(SOURCES))
    wanted = [hypothesis["tokens"].tolist() for hypothesis in wanted]
    torch.manual_seed(5)
    drawn = criterion.sampled(model, sample)
    rows = [[t for t in row if t != PAD] for row in drawn["target"].tolist()]
    assert rows == wanted
    assert [
        [t for t in row if t != PAD] for row in drawn["net_input"]["prev_output_tokens"].tolist()
    ] == [[EOS, *row[:-1]] for row in rows]
    assert drawn["ntokens"] == sum(map(len, rows))
    again = criterion.sampled(model, sample)["target"].tolist()
    assert again != drawn["target"].tolist()
    # The greedy output of either model is another text.
    assert rows != [ids(translate(s)) for s in SOURCES]


def test_own_targets_are_a_share_of_the_training_batches(verifier):
    criterion, model = make(verifier, on_policy=0.5), student()
    torch.manual_seed(1)
    shares = [criterion(model, batch())[2]["n_own"] for _ in range(20)]
    assert 0 < shares.count(len(SOURCES)) < 20 and set(shares) == {0, len(SOURCES)}
    assert all(criterion(model.eval(), batch())[2]["n_own"] == 0 for _ in range(5))


def test_logs_percentages(verifier):
    logs = [make(verifier)(student().eval(), batch())[2]] * 2
    with metrics.aggregate(new_root=True) as meters:
        DistillSpecLoss.reduce_metrics(logs)
    values = meters.get_smoothed_values()
    assert 0 < values["accepted_share"] < 100 and 0 < values["agreement"] < 100
    assert values["own_targets"] == 0 and values["loss"] > 0


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"verifier": None}, "--criterion distillspec_loss: needs --verifier"),
        ({"divergence": "kl"}, "--divergence kl: choose one of"),
        ({"on_policy": 1.5}, "--on-policy 1.5"),
        ({"on_policy": 1, "ddp_backend": "fully_sharded"}, "--on-policy: --ddp-backend fully"),
    ],
)
def test_impossible_settings_name_the_flag(verifier, settings, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        make(verifier, **settings)


def test_a_language_at_the_beginning_is_refused(verifier):
    sample = batch()
    sample["net_input"]["prev_output_tokens"][0, 0] = 5
    with pytest.raises(ValueError, match="^--on-policy: the outputs of this task begin"):
        make(verifier, on_policy=1.0)(student(), sample)
