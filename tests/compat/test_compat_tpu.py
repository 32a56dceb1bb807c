"""--bf16 is a number format, on the CPU too."""

import sys

import pytest
import torch
from fairseq import options, utils

no_xla = pytest.mark.skipif(utils.xm is not None, reason="torch_xla is installed")


def parse(*extra):
    parser = options.get_training_parser("translation")
    return options.parse_args_and_arch(parser, ["data", "--arch", "transformer", *extra])


@no_xla
def test_bf16_asks_for_no_tpu():
    args = parse("--bf16")
    assert args.bf16 and not args.tpu


@no_xla
def test_a_tpu_asked_for_is_still_asked_for():
    assert parse("--bf16", "--tpu").tpu


@no_xla
def test_flags_are_read_from_the_command_line(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["fairseq-train", "data", "--arch", "transformer", "--bf16"])
    args = options.parse_args_and_arch(options.get_training_parser("translation"))
    assert args.bf16 and not args.tpu


def test_other_formats_are_left_alone():
    args = parse("--fp16")
    assert args.fp16 and not args.bf16 and not args.tpu


def test_bf16_trains_on_the_cpu_with_plain_attention(fairseq_command, trained, tmp_path):
    log, _ = fairseq_command(
        "train", *trained.arguments, "--save-dir", tmp_path, "--max-update", 2, "--bf16",
        "--validate-interval", 9, "--dropout", 0,
    )  # fmt: skip
    assert "done training" in log
    if hasattr(torch.backends.cuda, "enable_flash_sdp"):
        assert "flash attention is off" in log


def test_importing_the_plugin_leaves_flash_attention_alone(run_python):
    code = "import torch, fairseq_specdec; print(torch.backends.cuda.flash_sdp_enabled())"
    if hasattr(torch.backends.cuda, "enable_flash_sdp"):
        assert run_python(code).strip() == "True"
