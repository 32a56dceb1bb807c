"""A drafter through fairseq's own commands: train, resume, load, hydra, two processes."""

import pathlib
import re
import subprocess

import hydra
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from in_process import PLUGIN, command_line, run_here
from toy_drafter import ToyTask, make_batch, save_verifier

ROOT = pathlib.Path(PLUGIN).parent
FLAGS = {
    "task": "translation", "arch": "spec_drafter_tiny", "criterion": "glancing_block_loss",
    "block_size": 3, "num_cuts": 2, "optimizer": "adam", "lr": 1e-3, "max_tokens": 200,
    "max_update": 3, "glancing_updates": 10, "log_format": "simple", "log_interval": 1,
    "no_epoch_checkpoints": True, "best_checkpoint_metric": "accepted",
    "maximize_best_checkpoint_metric": True, "data_buffer_size": 0,
}  # fmt: skip


@pytest.fixture
def verifier(reversal_data, tmp_path):
    """An untrained verifier for the toy corpus, pre-norm, 2+2 layers."""
    task = ToyTask()
    dictionary = Dictionary.load(str(reversal_data / "dict.src.txt"))
    task.source_dictionary = task.target_dictionary = dictionary
    before = {f"{side}_normalize_before": True for side in ("encoder", "decoder")}
    save_verifier(tmp_path / "verifier.pt", task, share_all_embeddings=True, **before)
    return tmp_path / "verifier.pt"


def state_of(folder):
    return torch.load(str(folder / "checkpoint_last.pt"), weights_only=False)


def test_train_resume_and_load_without_the_verifier(reversal_data, verifier, tmp_path):
    out = tmp_path / "out"
    given = {**FLAGS, "encoder_normalize_before": True, "decoder_normalize_before": True}
    given.update(encoder_layers=4, source_copy=True, save_dir=out)
    origin = {"init_encoder_from": verifier, "init_decoder_from": verifier}
    _, log = run_here("train", reversal_data, init_decoder_layers=1, **origin, **given)
    assert "--init-encoder-from" in log and "set to the identity: encoder.layers.1" in log
    assert "valid on 'valid' subset" in log and "accepted" in log and "block_accuracy" in log

    verifier.unlink()
    _, log = run_here("train", reversal_data, **{**given, "max_update": 5})
    assert re.findall(r"num_updates=(\d+),", log) == ["4", "5"]
    for name in ("checkpoint_last.pt", "checkpoint_best.pt"):
        models, cfg = checkpoint_utils.load_model_ensemble([str(out / name)])
        assert models[0].decoder.block_size == 3 and models[0].decoder.num_cuts == 2
        assert len(models[0].encoder.layers) == 4
        for field in ("init_encoder_from", "init_decoder_from", "init_decoder_layers"):
            assert getattr(cfg.model, field, None) is None


def added(words):
    """A word that sets a field which the file does not hold."""
    return f"+{words}" if hydra.__version__.startswith("1.0") else f"++{words}"


def test_hydra_train_and_load(reversal_data, verifier, tmp_path, fairseq_command):
    name = "spec_drafter_leftward"
    with open(tmp_path / f"{name}.yaml", "w", encoding="utf-8") as config:
        subprocess.run([str(ROOT / "scripts" / "run"), "--config", name], check=True, stdout=config)
    fairseq_command(
        "hydra-train", "--config-dir", tmp_path, "--config-name", name,
        f"common.user_dir={PLUGIN}", f"task.data={reversal_data}",
        "task.source_lang=src", "task.target_lang=tgt", "dataset.num_workers=0",
        "common.cpu=true", "common.fp16=false", "distributed_training.distributed_world_size=1",
        "model._name=spec_drafter_tiny", "model.block_size=5", "optimization.update_freq=[1]",
        f"checkpoint.save_dir={tmp_path / 'out'}", f"hydra.run.dir={tmp_path}",
        added("model.encoder.normalize_before=true"),
        added("model.decoder.normalize_before=true"), "optimization.max_update=2",
        f"model.init_encoder_from={verifier}",
        cwd=tmp_path,
    )  # fmt: skip
    assert state_of(tmp_path / "out")["cfg"]["model"]["init_encoder_from"] is None
    verifier.unlink()
    last = str(tmp_path / "out/checkpoint_last.pt")
    models, cfg = checkpoint_utils.load_model_ensemble([last])
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
ATTACHED = {
    "arch": "attached_drafter_tiny", "chain_width": 8, "chain_dropout": 0, "soft_targets": 0.5,
    "block_loss_decay": 0.5, "optimizer": "sgd", "lr": 0.05, "dropout": 0, "glancing_start": 0,
    "glancing_stop": 0, "glancing_updates": None, "max_update": 4,
}  # fmt: skip


def test_two_processes_train_as_one_of_twice_the_batches(
    reversal_data, verifier, tmp_path, fairseq_command
):
    """The same losses, and the same weights in the end, as one process with --update-freq 2."""
    plugin = tmp_path / "fixed_cuts"
    plugin.mkdir()
    (plugin / "__init__.py").write_text(FIXED_CUTS, encoding="utf-8")
    given = {**FLAGS, **ATTACHED, "attach_to": verifier}
    given.update(user_dir=plugin, cpu=True, num_workers=0)
    launcher = ("-m", "torch.distributed.run", "--nproc_per_node", "2", "--standalone")
    runs = {"one": ({"update_freq": 2}, ()), "two": ({"ddp_backend": "pytorch_ddp"}, launcher)}
    logs, models = {}, {}
    for name, (more, launched) in runs.items():
        words = command_line(**given, **more, save_dir=tmp_path / name)
        path = {"PYTHONPATH": str(ROOT)}
        logs[name], _ = fairseq_command("train", reversal_data, *words, launcher=launched, env=path)
        models[name] = state_of(tmp_path / name)["model"]
    assert "training on 2 devices" in logs["two"]
    figures = re.compile(r" (loss|accepted|gnorm)=([\d.]+)")
    one, two = ([(n, float(value)) for n, value in figures.findall(logs[run])] for run in runs)
    assert len(one) == 3 * 4
    assert two == [(name, pytest.approx(value, abs=2e-3)) for name, value in one]
    for name, tensor in models["one"].items():
        torch.testing.assert_close(models["two"][name], tensor, rtol=0, atol=1e-6)
