"""What the authors' own code made of real checkpoints, reproduced through fairseq's commands.

The folder is not part of the project; SPECDEC_AUTHORS_FIXTURES names one that holds verifier.pt,
drafter.pt, dict.en.txt, dict.de.txt, input.bpe.en, <setting>.bpe.de and expected.json with, under
``results``, ``mean_accepted_tokens``, ``mean_iterations`` and ``verifier_calls`` of each setting.
"""

import json
import os
import pathlib

import pytest

import fairseq_specdec

FOLDER = os.environ.get("SPECDEC_AUTHORS_FIXTURES")
WHOLE = ["--draft-budget", 0, "--draft-confidence", 0, "--drafter-dtype", "same"]
SETTINGS = {
    "gad": ["gad"],
    "gadpp_3_1": ["gad++", "--top-beta", 3, "--tau", 1.0, *WHOLE],
    "gadpp_5_3": ["gad++", "--top-beta", 5, "--tau", 3.0, *WHOLE],
}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not FOLDER, reason="SPECDEC_AUTHORS_FIXTURES names no folder of the authors' checkpoints"
    ),
]


@pytest.fixture(scope="module")
def folder():
    return pathlib.Path(FOLDER)


@pytest.fixture(scope="module")
def binarised(folder, fairseq_command, tmp_path_factory):
    work = tmp_path_factory.mktemp("authors")
    for side, name in (("en", "input.bpe.en"), ("de", "gad.bpe.de")):
        (work / f"test.{side}").write_bytes((folder / name).read_bytes())
    fairseq_command(
        "preprocess", "-s", "en", "-t", "de", "--srcdict", folder / "dict.en.txt",
        "--tgtdict", folder / "dict.de.txt", "--testpref", work / "test", "--destdir", work / "bin",
        "--workers", 1,
    )  # fmt: skip
    return work / "bin"


def flags(folder, setting):
    return [
        "--user-dir", fairseq_specdec.__path__[0], "--task", "translation_specdec", "--cpu",
        "--path", folder / "verifier.pt", "--drafter-path", folder / "drafter.pt",
        "--batch-size", 1, "--num-workers", 0, "--print-step", "--strategy", *SETTINGS[setting],
    ]  # fmt: skip


def numbered(kind, out):
    """The last column of the lines ``<kind>-<id>``, by id."""
    lines = [line.split("\t") for line in out.splitlines() if line.startswith(kind + "-")]
    return {int(line[0][len(kind) + 1 :]): line[-1] for line in lines}


@pytest.mark.parametrize("setting", SETTINGS)
def test_generate(folder, binarised, fairseq_command, setting):
    out, _ = fairseq_command("generate", binarised, *flags(folder, setting))
    expected = (folder / f"{setting}.bpe.de").read_text(encoding="utf-8").splitlines()
    ours = numbered("H", out)
    assert [ours[i] for i in range(len(expected))] == expected
    words = sum(len(line.split()) for line in expected)
    steps = [int(each) for each in numbered("I", out).values()]
    figures = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["results"][setting]
    assert sum(steps) == figures["verifier_calls"]
    assert sum(steps) / len(steps) == figures["mean_iterations"]
    assert words / sum(steps) == figures["mean_accepted_tokens"]
