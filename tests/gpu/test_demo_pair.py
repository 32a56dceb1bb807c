"""The demo pair on a GPU says what stock says."""

import pathlib
import subprocess
import sys

import pytest
import torch

import fairseq_specdec

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

PLUGIN = pathlib.Path(fairseq_specdec.__path__[0])
DATA = PLUGIN.parent / "data-bin" / "demo_ende"


def hypotheses(*flags):
    """What fairseq-generate prints for the demo's test sentences."""
    command = [
        sys.executable, "-m", "fairseq_cli.generate", DATA, "--path", DATA / "verifier.pt",
        "-s", "en", "-t", "de", "--gen-subset", "test", "--beam", 1, "--max-sentences", 8,
        "--user-dir", PLUGIN, *flags,
    ]  # fmt: skip
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return [line.split("\t")[2] for line in done.stdout.splitlines() if line.startswith("H-")]


@pytest.mark.skipif(not (DATA / "verifier.pt").exists(), reason="no data-bin/demo_ende")
@pytest.mark.parametrize("strategy", ["greedy", "iad", "gad"])
def test_the_demo_pair_equals_stock(strategy):
    drafter = ["--drafter-path", DATA / "drafter.pt"] if strategy == "gad" else []
    stock = hypotheses("--task", "translation")
    ours = hypotheses("--task", "translation_specdec", "--strategy", strategy, *drafter)
    assert len(stock) >= 100 and ours == stock
