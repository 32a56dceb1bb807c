"""The commonest mistakes end real commands with one line: flag or file, and the remedy."""

import os
import shlex
import shutil
import subprocess

import pytest
import torch
from in_process import PLUGIN
from toy_pair import write_pair

GENERATE = "fairseq-generate toy --user-dir fairseq_specdec --task translation_specdec --cpu "
GAD = GENERATE + "--path verifier.pt --strategy gad "
# What the user did, and the command.
MISTAKES = [
    ("No drafter", GAD),
    ("A drafter that is not there", GAD + "--drafter-path draftr.pt"),
    ("A folder instead of a checkpoint", GENERATE + "--path checkpoints"),
    ("A dictionary of another model", GENERATE.replace("toy", "other", 1) + "--path verifier.pt"),
    ("A strategy that does not exist", GENERATE + "--path verifier.pt --strategy gadd"),
    ("Weights without their settings", GENERATE + "--path weights.pt"),
    ("A pipe instead of a checkpoint", GENERATE + "--path pipe.pt"),
    ("A drafter with another vocabulary", GAD + "--drafter-path larger.pt"),
    ("A trace into a folder that is not there", GENERATE + "--path verifier.pt --trace-path no/t"),
    ("A system of the benchmark that does not exist", "specdec-bench toy --path verifier.pt "
     "--cpu --system 'fast: --strategy gadd'"),
    ("A subword model that is not there", "specdec-serve --path subwords/verifier.pt "
     "--data subwords --source-lang src --target-lang tgt"),
    ("Distilling without a teacher", "specdec-distill toy --path none.pt --dest out --cpu"),
    ("Languages the wrong way round", GENERATE + "--path trained.pt -s tgt -t src"),
    ("A language that the data do not have", GENERATE + "--path verifier.pt -s src -t xx"),
    ("A drafter instead of the verifier", GENERATE + "--path drafter.pt"),
    ("The verifier as its own drafter", GAD + "--drafter-path verifier.pt"),
    ("Two verifiers with a separator that is none", GENERATE + "--path verifier.pt,verifier.pt"),
    ("A flag of another strategy", GAD + "--drafter-path drafter.pt --alpha-fb 0.5"),
    ("The task of another family", GENERATE.replace("task translation_specdec",
     "task translation_multi_simple_epoch_specdec") + "--path verifier.pt -s src -t tgt"),
    ("Accelerating a model that is too small to gain", "specdec-accelerate toy --out o "
     "--path verifier.pt"),
    ("Accelerating a drafter", "specdec-accelerate toy --path drafter.pt --out o"),
    ("A drafter to convert that is cut off", "specdec-convert drafter half.pt whole.pt"),
]  # fmt: skip


def _hostile_checkpoints(home):
    state = torch.load(str(home / "verifier.pt"), weights_only=False)
    torch.save(state["model"], str(home / "weights.pt"))
    state["args"].source_lang, state["args"].target_lang = "src", "tgt"
    torch.save(state, str(home / "trained.pt"))
    os.mkfifo(str(home / "pipe.pt"))


def _subwords(home):
    (home / "subwords").mkdir()
    shutil.copy(str(home / "verifier.pt"), str(home / "subwords"))
    for side in ("src", "tgt"):
        words = (home / "toy" / f"dict.{side}.txt").read_text().replace("w", "\u2581w")
        (home / "subwords" / f"dict.{side}.txt").write_text(words, encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, fairseq_command):
    """What the commands name, under short names."""
    home = tmp_path_factory.mktemp("mistakes")
    write_pair(home)
    for name in ("toy", "other"):
        words = [f"--{split}pref={home / 'test.src-tgt'}" for split in ("train", "valid", "test")]
        words += ["--destdir", home / name]
        dicts = {"src": home / "dict.src.txt", "tgt": home / "dict.tgt.txt"}
        if name == "other":
            for path in dicts.values():
                path.write_text("".join(path.read_text().splitlines(True)[:20]))
        words += ["--srcdict", dicts["src"], "--tgtdict", dicts["tgt"], "--workers", 1]
        fairseq_command("preprocess", "-s", "src", "-t", "tgt", *words)
    (home / "checkpoints").mkdir()
    content = (home / "verifier.pt").read_bytes()
    (home / "half.pt").write_bytes(content[: len(content) // 2])
    state = torch.load(str(home / "drafter.pt"), weights_only=False)
    for side in ("encoder", "decoder"):
        rows = state["model"][f"{side}.embed_tokens.weight"]
        state["model"][f"{side}.embed_tokens.weight"] = torch.cat([rows, rows[:8]])
    torch.save(state, str(home / "larger.pt"))
    _hostile_checkpoints(home)
    _subwords(home)
    (home / "fairseq_specdec").symlink_to(PLUGIN)
    return home


@pytest.fixture(scope="module")
def attempt(folder, warm_python):
    """(status, stderr) of a command; (0, stdout) where it succeeds."""

    def run(command):
        program, *words = shlex.split(command)
        start = [str(warm_python.programs / program)]
        if program == "fairseq-generate":  # as the interpreter's own main module
            start = [str(warm_python.python), "-m", "fairseq_cli.generate"]
        done = subprocess.run(
            [*start, *words], cwd=str(folder), text=True,
            capture_output=True, env=dict(os.environ, CUDA_VISIBLE_DEVICES=""),
        )  # fmt: skip
        output = done.stderr if done.returncode else done.stdout
        return done.returncode, output.replace(f"{folder}/", "")

    return run


@pytest.mark.parametrize("title, command", MISTAKES, ids=[title for title, _ in MISTAKES])
def test_a_mistake_ends_with_one_line(attempt, title, command):
    status, stderr = attempt(command)
    assert status not in (0, None) and "Traceback" not in stderr
    line = stderr.splitlines()[-1]
    assert line.startswith(f"{shlex.split(command)[0]}: error: ") and len(line) < 400
