"""Two pages run from top to bottom, small: the first steps, and from raw text to a table."""

import itertools
import os
import re
import subprocess
import sys

import pytest
from pages import DOCS, ROOT, blocks_of

DEMO = ROOT / "data-bin" / "demo_ende"
SHAPE = " ".join(
    f"--{side}-embed-dim 32 --{side}-ffn-embed-dim 64 --{side}-attention-heads 4 --{side}-layers 2"
    for side in ("encoder", "decoder")
)
# What makes a command small enough, in this order; the verifier of 4 updates knows no end.
SMALLER = [
    (r"--max-update \d+", "--max-update 4 --num-workers 0 --data-buffer-size 0"),
    (r"--arch (transformer|blockwise_transformer)(_base)? ", rf"--arch \1 {SHAPE} "),
    (r"--arch (spec|attached)_drafter_base ", rf"--arch \1_drafter_tiny {SHAPE} "),
    (r"(--dest data-bin/\w+ (?:--task|--beam))", r"--max-len-b 12 --on-length-limit keep \1"),
    (r"--save-interval-updates \d+", "--save-interval-updates 2"),
    ("--last 5", "--last 2"),
    ("(learn-bpe -s |vocab_size=)32000", r"\g<1>500"),
    (r"--cpu --limit \d+", "--cpu --limit 2 --warmup 0"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "page, rows", [("decoding", ["gad"]), ("own_model", ["greedy", "gad", "blockwise", "bild"])]
)
def test_a_page_runs(page, rows, tmp_path):
    for name in ("fairseq_specdec", "scripts"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "data-bin").mkdir()
    (tmp_path / "data-bin" / "demo_ende").symlink_to(DEMO)
    (tmp_path / "corpus").mkdir()
    for side in ("en", "de"):
        held_out = (DEMO / f"heldout.{side}").read_text(encoding="utf-8").splitlines()
        lines = itertools.cycle(filter(None, held_out))
        for split, size in (("train", 2000), ("valid", 50), ("test", 30)):
            text = "".join(f"{line}\n" for line in itertools.islice(lines, size))
            (tmp_path / "corpus" / f"{split}.{side}").write_text(text, encoding="utf-8")
    environment = dict(os.environ, PYTHONPATH=str(tmp_path), OMP_NUM_THREADS="1")
    environment["PATH"] = f"{os.path.dirname(sys.executable)}{os.pathsep}{environment['PATH']}"
    printed = ""
    for language, text in blocks_of(DOCS / f"{page}.md"):
        if language not in ("bash", "python") or text.startswith("specdec-accelerate"):
            continue  # tests/accelerate runs that
        for pattern, replacement in SMALLER:
            text = re.sub(pattern, replacement, text)
        program = ["bash", "-euo", "pipefail"] if language == "bash" else [sys.executable]
        done = subprocess.run(
            [*program, "-c", text], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr[-4000:]}"
        printed += done.stdout
    for name in rows:
        assert re.search(rf"^\| {name} ", printed, flags=re.M), name
