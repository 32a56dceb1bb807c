"""Two pages run from top to bottom, small: the first steps, and from raw text to a table."""

import importlib.util
import itertools
import os
import re
import subprocess
import sys

import pytest
from doc_pages import DOCS, ROOT, blocks_of
from fairseq.data import indexed_dataset

DEMO = ROOT / "data-bin" / "demo_ende"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (DEMO / "verifier.pt").is_file(), reason="no demo pair"),
]
SHAPE = " ".join(
    f"--{side}-embed-dim 32 --{side}-ffn-embed-dim 64 --{side}-attention-heads 4 --{side}-layers 2"
    for side in ("encoder", "decoder")
)
BRIEF = "--num-workers 0 --data-buffer-size 0"
# What makes a command small enough, in this order; the verifier of 4 updates knows no end.
SMALLER = [
    (r"--max-update \d+", f"--max-update 4 {BRIEF}"),
    (r"--arch (transformer|blockwise_transformer)(_base)? ", rf"--arch \1 {SHAPE} "),
    (r"--arch (spec|attached)_drafter_base ", rf"--arch \1_drafter_tiny {SHAPE} "),
    (r"(--dest data-bin/\w+ (?:--task|--beam))", r"--max-len-b 12 --on-length-limit keep \1"),
    (r"--save-interval-updates \d+", "--save-interval-updates 2"),
    ("--last 5", "--last 2"),
    ("(learn-bpe -s |vocab_size=)32000", r"\g<1>500"),
    (r"--cpu --limit \d+", "--cpu --limit 2 --warmup 0"),
]


@pytest.fixture
def run_page(tmp_path):
    """Run the blocks of a page in a folder; what they print."""
    for name in ("fairseq_specdec", "scripts"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "data-bin").mkdir()
    environment = dict(os.environ, PYTHONPATH=str(tmp_path), OMP_NUM_THREADS="1")
    environment["PATH"] = f"{os.path.dirname(sys.executable)}{os.pathsep}{environment['PATH']}"

    def run_page(name):
        printed = []
        for block in blocks_of(DOCS / f"{name}.md"):
            text = block.text
            if block.language not in ("bash", "python") or text.startswith("specdec-accelerate"):
                continue  # tests/accelerate runs that
            for pattern, replacement in SMALLER:
                text = re.sub(pattern, replacement, text)
            shell = ["bash", "-euo", "pipefail", "-c"]
            done = subprocess.run(
                [*(shell if block.language == "bash" else [sys.executable, "-c"]), text],
                cwd=tmp_path, env=environment, capture_output=True, text=True,
            )  # fmt: skip
            assert done.returncode == 0, f"{block}\n{text}\n{done.stdout}\n{done.stderr[-4000:]}"
            printed.append(done.stdout)
        return "".join(printed)

    return run_page


def test_the_first_steps(run_page, tmp_path):
    """The demo pair with its first six sentences."""
    folder = tmp_path / "data-bin" / "demo_ende"
    folder.mkdir()
    for path in DEMO.iterdir():
        if not path.name.startswith("test.en-de."):
            (folder / path.name).symlink_to(path)
    for side in ("en", "de"):
        stem = f"test.en-de.{side}"
        data = indexed_dataset.make_dataset(str(DEMO / stem), "mmap")
        builder = indexed_dataset.make_builder(
            str(folder / f"{stem}.bin"), "mmap", vocab_size=40000
        )
        for i in range(6):
            builder.add_item(data[i])
        builder.finalize(str(folder / f"{stem}.idx"))
    out = run_page("decoding")
    assert "the same\n" in out and re.search(r"^\| gad ", out, flags=re.M)
    assert (tmp_path / "gad.html").stat().st_size > 10000


@pytest.mark.skipif(importlib.util.find_spec("subword_nmt") is None, reason="no subword-nmt")
def test_raw_text_becomes_a_table(run_page, tmp_path):
    (tmp_path / "corpus").mkdir()
    for side in ("en", "de"):
        held_out = (DEMO / f"heldout.{side}").read_text(encoding="utf-8").splitlines()
        lines = itertools.cycle(filter(None, held_out))
        for split, size in (("train", 2000), ("valid", 50), ("test", 30)):
            text = "".join(f"{line}\n" for line in itertools.islice(lines, size))
            (tmp_path / "corpus" / f"{split}.{side}").write_text(text, encoding="utf-8")
    out = run_page("own_model")
    table = (tmp_path / "table.md").read_text(encoding="utf-8")
    for name in ("fairseq beam 5", "greedy", "gad", "gad, separate", "blockwise", "sps", "bild"):
        assert re.search(rf"^\| {name} ", table, flags=re.M), name
    assert " 100.0% |" in re.search(r"^\| gad, separate .*", out, flags=re.M).group()
