"""--bf16 is a number format, on the CPU too."""

import sys

import pytest
from fairseq import options, utils

FLAGS = {
    ("--bf16",): (True, False), ("--bf16", "--tpu"): (True, True), ("--fp16",): (False, False),
}  # fmt: skip


@pytest.mark.skipif(utils.xm is not None, reason="torch_xla is installed")
@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("from_command_line", [False, True])
def test_bf16_asks_for_no_tpu(flags, from_command_line, monkeypatch):
    words = ["data", "--arch", "transformer", *flags]
    monkeypatch.setattr(sys, "argv", ["fairseq-train", *words])
    parser = options.get_training_parser("translation")
    args = options.parse_args_and_arch(parser, None if from_command_line else words)
    assert (args.bf16, args.tpu) == FLAGS[flags]
