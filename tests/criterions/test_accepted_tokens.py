"""--eval-verifier: validation measures what the drafter is worth."""

from argparse import Namespace

import pytest
import torch
from toy_blockwise import save_checkpoint
from toy_translation import ids, make_sample, make_task, pad_to, sentences, toy_drafter, toy_model
from toy_translation import translate as translation

from fairseq_specdec.criterions import accepted_tokens
from fairseq_specdec.criterions.accepted_tokens import AcceptedTokens
from fairseq_specdec.criterions.glancing_block_loss import GlancingBlockLoss

EOS = 2


@pytest.fixture
def meter(tmp_path):
    save_checkpoint(tmp_path / "verifier.pt", toy_model())
    return AcceptedTokens(str(tmp_path / "verifier.pt"), 24, make_task())


def test_counts_what_decoding_with_the_verifier_gives(meter):
    counts = meter.measure(toy_drafter(), make_sample(sentences(24, seed=3)))
    tokens = counts["n_emitted"] / counts["n_iterations"]
    assert 1.2 < tokens <= 5
    untrained = toy_drafter(updates=1)
    meter.restart()
    poor = meter.measure(untrained, make_sample(sentences(24, seed=3)))
    assert poor["n_emitted"] == counts["n_emitted"]  # the output does not depend on the drafter
    assert poor["n_iterations"] > counts["n_iterations"]


def test_stops_after_the_wanted_sentences_until_training_goes_on(meter):
    sample = make_sample(sentences(20, seed=3))
    drafter = toy_drafter()
    first = meter.measure(drafter, sample)
    second = meter.measure(drafter, sample)
    assert 0 < second["n_emitted"] < first["n_emitted"]
    assert meter.measure(drafter, sample) == {"n_emitted": 0, "n_iterations": 0}
    meter.restart()
    assert meter.measure(drafter, sample) == first


def test_sentences_are_taken_from_the_whole_split(tmp_path):
    """fairseq validates from the shortest to the longest."""
    save_checkpoint(tmp_path / "verifier.pt", toy_model())
    task = make_task()
    task.datasets["valid"] = range(24)
    meter = AcceptedTokens(str(tmp_path / "verifier.pt"), 8, task)
    whole = make_sample(sentences(24, seed=3))
    chosen = make_sample(sentences(24, seed=3)[::3])
    everything = AcceptedTokens(str(tmp_path / "verifier.pt"), 8, make_task())
    drafter = toy_drafter()
    assert meter.measure(drafter, whole) == everything.measure(drafter, chosen)
    assert meter.left == 0
    meter.restart()
    ids = torch.tensor([1, 2, 4])  # none of them
    few = {"id": ids, "net_input": {k: v[:3] for k, v in whole["net_input"].items()}}
    assert meter.measure(drafter, few) == {"n_emitted": 0, "n_iterations": 0}
    assert meter.left == 8


def test_the_criterion_logs_it_in_validation_only(meter):
    cfg = Namespace(
        glancing_start=0.0, glancing_stop=0.0, label_smoothing=0.0, block_loss_decay=1.0,
        glancing_updates=0, max_update=0, eval_verifier=None, eval_sentences=24, soft_targets=0.0,
        expected_length=0.0,
    )  # fmt: skip
    criterion = GlancingBlockLoss(cfg, make_task())
    criterion.accepted_tokens = meter
    sources = sentences(16, seed=4)
    targets = [ids(translation(s)) for s in sources]
    sample = make_sample(sources)
    sample["target"] = pad_to(targets, left=False)
    sample["ntokens"] = sum(map(len, targets))
    sample["net_input"]["prev_output_tokens"] = pad_to([[EOS] + t[:-1] for t in targets], False)
    drafter = toy_drafter(updates=60)
    _, _, log = criterion(drafter, sample)
    assert log["n_emitted"] > log["n_iterations"] > 0
    drafter.train()
    with torch.no_grad():
        _, _, log = criterion(drafter, sample)
    drafter.eval()
    assert "n_emitted" not in log
    assert meter.left == meter.sentences


def test_a_missing_verifier_is_named():
    with pytest.raises(ValueError, match="--eval-verifier: no such file: nowhere.pt"):
        AcceptedTokens("nowhere.pt", 10, make_task())


@pytest.mark.parametrize(
    "settings, expected",
    [
        ({}, [([0, 2, 3], None, None)]),
        ({"decoder_langtok": True}, [([0, 2, 3], None, [[7], [7], [8]])]),
        (
            {"decoder_langtok": True, "lang_tok_replacing_bos_eos": True},
            [([0, 2], 7, None), ([3], 8, None)],
        ),
        ({"langs": "de,ro"}, [([0, 2], 7, None), ([3], 8, None)]),
    ],
)
def test_outputs_begin_as_the_task_lets_them(settings, expected):
    """With the language's token forced, or instead of </s>: one start for all rows of a call."""
    starts = torch.tensor([[7, 5], [8, 5], [7, 6], [8, 6]])
    sample = {"target": starts, "net_input": {"prev_output_tokens": starts}}
    task = Namespace(args=Namespace(**settings))
    groups = accepted_tokens._by_beginning(task, sample, torch.tensor([0, 2, 3]))
    plain = [
        (rows.tolist(), start, None if prefix is None else prefix.tolist())
        for rows, start, prefix in groups
    ]
    assert plain == expected
