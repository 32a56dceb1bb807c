"""A drafter through fairseq's own commands: train, resume, load, hydra, two processes."""

import pathlib
import re

import hydra
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from toy_drafter import ToyTask, make_batch, save_verifier

import fairseq_specdec

PLUGIN = pathlib.Path(fairseq_specdec.__path__[0]).resolve()
CONFIGS = PLUGIN.parent / "configs"


def train_flags(data, save_dir, **flags):
    """The command line; flags given override, None removes, True is a bare flag."""
    given = {
        "cpu": True, "user-dir": PLUGIN, "task": "translation", "arch": "spec_drafter_tiny",
        "criterion": "glancing_block_loss", "block-size": 3, "num-cuts": 2, "optimizer": "adam",
        "lr": 1e-3, "max-tokens": 200, "max-update": 3, "glancing-updates": 10,
        "save-dir": save_dir, "num-workers": 0, "log-format": "simple", "log-interval": 1,
        "no-epoch-checkpoints": True, "best-checkpoint-metric": "accepted",
        "maximize-best-checkpoint-metric": True,
    }  # fmt: skip
    given.update({name.replace("_", "-"): value for name, value in flags.items()})
    command = [data]
    for name, value in given.items():
        if value is not None:
            command += [f"--{name}"] if value is True else [f"--{name}", value]
    return command


@pytest.fixture
def verifier(reversal_data, tmp_path):
    """An untrained verifier for the toy corpus, pre-norm, 2+2 layers."""
    task = ToyTask()
    dictionary = Dictionary.load(str(reversal_data / "dict.src.txt"))
    task.source_dictionary = task.target_dictionary = dictionary
    path = tmp_path / "verifier.pt"
    sides = ("encoder", "decoder")
    before = {f"{side}_normalize_before": True for side in sides}
    save_verifier(path, task, share_all_embeddings=True, **before)
    return path


def test_train_resume_and_load_without_the_verifier(
    reversal_data, verifier, tmp_path, fairseq_command
):
    out = tmp_path / "out"
    shape = {"encoder_normalize_before": True, "decoder_normalize_before": True}
    shape.update(encoder_layers=4, source_copy=True, max_update=3)
    origin = {"init_encoder_from": verifier, "init_decoder_from": verifier}
    origin["init_decoder_layers"] = "1"
    log, _ = fairseq_command("train", *train_flags(reversal_data, out, **shape, **origin))
    assert "--init-encoder-from" in log and "set to the identity: encoder.layers.1" in log
    assert "valid on 'valid' subset" in log and "accepted" in log and "block_accuracy" in log

    verifier.unlink()
    first = torch.load(str(out / "checkpoint_last.pt"), weights_only=False)["cfg"]["model"]
    assert (first.init_encoder_from, first.init_decoder_from) == (None, None)
    checkpoint_utils.load_model_ensemble([str(out / "checkpoint_last.pt")])
    shape["max_update"] = 5
    log, _ = fairseq_command("train", *train_flags(reversal_data, out, **shape))
    assert "num_updates=4" in log and "num_updates=5" in log and "num_updates=1," not in log

    for name in ("checkpoint_last.pt", "checkpoint_best.pt"):
        models, cfg = checkpoint_utils.load_model_ensemble([str(out / name)])
        assert models[0].decoder.block_size == 3 and models[0].decoder.num_cuts == 2
        assert len(models[0].encoder.layers) == 4
        for field in ("init_encoder_from", "init_decoder_from", "init_decoder_layers"):
            assert getattr(cfg.model, field, None) is None


def added(words):
    """A word that sets a field which the file does not hold."""
    return f"+{words}" if hydra.__version__.startswith("1.0") else f"++{words}"


def test_hydra_train_resume_and_load(reversal_data, verifier, tmp_path, fairseq_command):
    def train(*overrides):
        return fairseq_command(
            "hydra-train", "--config-dir", CONFIGS, "--config-name", "spec_drafter_toy",
            f"common.user_dir={PLUGIN}", f"task.data={reversal_data}",
            f"checkpoint.save_dir={tmp_path / 'out'}", f"hydra.run.dir={tmp_path}",
            added("model.encoder.normalize_before=true"),
            added("model.decoder.normalize_before=true"),
            added("model.share_all_embeddings=true"), "common.log_interval=1", *overrides,
            cwd=tmp_path,
        )  # fmt: skip

    last = str(tmp_path / "out/checkpoint_last.pt")
    train("optimization.max_update=2", added(f"model.init_encoder_from={verifier}"))
    assert torch.load(last, weights_only=False)["cfg"]["model"]["init_encoder_from"] is None
    verifier.unlink()
    checkpoint_utils.load_model_ensemble([last])
    train("optimization.max_update=3")
    models, cfg = checkpoint_utils.load_model_ensemble([last])
    assert torch.load(last, weights_only=False)["optimizer_history"][-1]["num_updates"] == 3
    assert models[0].decoder.block_size == 5 and cfg.model.encoder_embed_dim == 64
    assert models[0].encoder.layers[0].normalize_before
    batch = make_batch(words=4)["net_input"]
    assert models[0].encoder(batch["src_tokens"])["encoder_out"][0].size(-1) == 64


# Cuts are drawn at random, by two processes others than by one: here they follow from lengths.
FIXED_CUTS = """
from fairseq_specdec import criterions, models, tasks
from fairseq_specdec.criterions import glancing_block_loss as loss
from fairseq_specdec.training.block_noising import fixed_cuts
loss.draw_cuts = lambda lengths, cuts: fixed_cuts(lengths, lengths, cuts)
"""
KINDS = {
    "separate": {"source_copy": True},
    "attached": {"arch": "attached_drafter_tiny", "chain_width": 8, "chain_dropout": 0},
}
WEIGHTS = {"separate": {}, "attached": {"soft_targets": 0.5, "block_loss_decay": 0.5}}


@pytest.mark.parametrize("kind", [pytest.param("separate", marks=pytest.mark.slow), "attached"])
def test_two_processes_train_as_one_of_twice_the_batches(
    kind, reversal_data, verifier, tmp_path, fairseq_command
):
    """The same losses, and the same weights in the end, as one process with --update-freq 2."""
    plugin = tmp_path / "fixed_cuts"
    plugin.mkdir()
    (plugin / "__init__.py").write_text(FIXED_CUTS, encoding="utf-8")
    flags = {"user_dir": plugin, "optimizer": "sgd", "lr": 0.05, "dropout": 0, **KINDS[kind]}
    flags.update(WEIGHTS[kind], glancing_start=0, glancing_stop=0, glancing_updates=None)
    flags.update(attach_to=verifier if kind == "attached" else None, max_update=4)
    launcher = ("-m", "torch.distributed.run", "--nproc_per_node", "2", "--standalone")
    runs = {"one": ({"update_freq": 2}, ()), "two": ({"ddp_backend": "pytorch_ddp"}, launcher)}
    logs, weights = {}, {}
    for name, (more, launched) in runs.items():
        command = train_flags(reversal_data, tmp_path / name, **flags, **more)
        path = {"PYTHONPATH": str(PLUGIN.parent)}
        logs[name], _ = fairseq_command("train", *command, launcher=launched, env=path)
        weights[name] = torch.load(str(tmp_path / name / "checkpoint_last.pt"), weights_only=False)[
            "model"
        ]
    assert "training on 2 devices" in logs["two"]
    figures = re.compile(r" (loss|accepted|gnorm)=([\d.]+)")
    one, two = (
        [(name, float(value)) for name, value in figures.findall(logs[run])] for run in runs
    )
    assert len(one) == 3 * 4
    assert two == [(name, pytest.approx(value, abs=2e-3)) for name, value in one]
    for name, tensor in weights["one"].items():
        torch.testing.assert_close(weights["two"][name], tensor, rtol=0, atol=1e-6)
