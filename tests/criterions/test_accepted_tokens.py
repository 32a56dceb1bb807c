"""--eval-verifier: validation measures what the drafter is worth."""

from argparse import Namespace

import pytest
import torch
from toy_blockwise import save_checkpoint
from toy_early_exit import make_batch
from toy_translation import (
    ids,
    make_sample,
    make_task,
    sentences,
    toy_drafter,
    toy_model,
    translate,
)

from fairseq_specdec.criterions import GlancingBlockLoss, GlancingBlockLossConfig
from fairseq_specdec.criterions.accepted_tokens import AcceptedTokens

NOTHING = {"n_emitted": 0, "n_iterations": 0}


def batch(sources):
    made = make_batch(make_sample(sources), [ids(translate(each)) for each in sources])
    return {**made, "id": torch.arange(len(sources))}


@pytest.fixture
def meter(tmp_path):
    save_checkpoint(tmp_path / "verifier.pt", toy_model())

    def make(count=24, task=None):
        return AcceptedTokens(str(tmp_path / "verifier.pt"), count, task or make_task())

    return make


def test_counts_what_decoding_with_the_verifier_gives(meter):
    sample = batch(sentences(24, seed=3))
    counts = meter().measure(toy_drafter(), sample)
    assert 1.2 < counts["n_emitted"] / counts["n_iterations"] <= 5
    poor = meter().measure(toy_drafter(updates=1), sample)
    assert poor["n_emitted"] == counts["n_emitted"]  # the output does not depend on the drafter
    assert poor["n_iterations"] > counts["n_iterations"]


def test_stops_after_the_wanted_sentences_until_training_goes_on(meter):
    meter, sample, drafter = meter(), batch(sentences(20, seed=3)), toy_drafter()
    first, second = meter.measure(drafter, sample), meter.measure(drafter, sample)
    assert 0 < second["n_emitted"] < first["n_emitted"]
    assert meter.measure(drafter, sample) == NOTHING
    meter.restart()
    assert meter.measure(drafter, sample) == first


def test_sentences_are_taken_from_the_whole_split(meter):
    """fairseq validates from the shortest to the longest."""
    task, drafter = make_task(), toy_drafter()
    task.datasets["valid"] = range(24)
    spread, whole = meter(8, task), batch(sentences(24, seed=3))
    chosen = batch(sentences(24, seed=3)[::3])
    assert spread.measure(drafter, whole) == meter(8).measure(drafter, chosen)
    assert spread.left == 0
    spread.restart()
    few = {**whole, "id": torch.tensor([1, 2, 4])}  # none of them
    assert spread.measure(drafter, few) == NOTHING
    assert spread.left == 8


def test_the_criterion_logs_it_in_validation_only(meter):
    cfg = GlancingBlockLossConfig(label_smoothing=0.0, max_update=9)
    criterion = GlancingBlockLoss(cfg, make_task())
    criterion.accepted_tokens = meter()
    sample, drafter = batch(sentences(16, seed=4)), toy_drafter(updates=60)
    _, _, log = criterion(drafter, sample)
    assert log["n_emitted"] > log["n_iterations"] > 0
    drafter.train()
    with torch.no_grad():
        _, _, log = criterion(drafter, sample)
    drafter.eval()
    assert "n_emitted" not in log and criterion.accepted_tokens.left == 24


def test_a_missing_verifier_is_named():
    with pytest.raises(ValueError, match="--eval-verifier: no such file: nowhere.pt"):
        AcceptedTokens("nowhere.pt", 10, make_task())


@pytest.mark.parametrize(
    "settings, start, expected",
    [
        ({}, [2, 2, 2, 2], [([0, 1, 2, 3], 2, None)]),
        ({"decoder_langtok": True}, [2] * 4, [([0, 1, 2, 3], 2, [[7], [8], [7], [8]])]),
        ({"decoder_langtok": True, "lang_tok_replacing_bos_eos": True}, [7, 8, 7, 8],
         [([0, 2], 7, None), ([1, 3], 8, None)]),
        ({"langs": "de,ro"}, [7, 8, 7, 8], [([0, 2], 7, None), ([1, 3], 8, None)]),
    ],
)  # fmt: skip
def test_outputs_begin_as_the_task_lets_them(meter, monkeypatch, settings, start, expected):
    """With the language's token forced, or instead of </s>: one start for all rows of a call."""
    calls = []

    def generate(models, sample, prefix, bos_token):
        rows = sample["net_input"]["src_lengths"].tolist()
        calls.append((rows, bos_token, None if prefix is None else prefix.tolist()))

    counted = Namespace(generate=generate, stats=Namespace(emitted=0, iterations=0))
    meter = meter()
    meter.task.args, meter.verifier = Namespace(**settings), torch.nn.Identity()
    monkeypatch.setattr(meter, "generator_for", lambda *given: counted)
    words = torch.tensor([[7, 5], [8, 5], [7, 6], [8, 6]])
    inputs = {"src_tokens": words, "src_lengths": torch.arange(4)}
    inputs["prev_output_tokens"] = torch.tensor(start)[:, None]
    meter.measure(None, {"id": torch.arange(4), "target": words, "net_input": inputs})
    assert calls == expected
