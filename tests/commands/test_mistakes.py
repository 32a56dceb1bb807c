"""The commonest mistakes end real commands with one line: flag or file, and the remedy."""

import dataclasses
import os
import shlex
import shutil
import subprocess
from argparse import Namespace

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.models.transformer_lm import TransformerLanguageModelConfig
from in_process import PLUGIN
from toy_pair import write_pair
from toy_translation import dictionary

from fairseq_specdec.checkpoints.verifier import Dictionaries

GENERATE = "fairseq-generate toy --user-dir fairseq_specdec --task translation_specdec --cpu "
GAD = GENERATE + "--path verifier.pt --strategy gad "
# What the user did, and the command.
MISTAKES = [
    ("No drafter", GAD),
    ("A drafter that is not there", GAD + "--drafter-path draftr.pt"),
    ("A folder instead of a checkpoint", GENERATE + "--path checkpoints"),
    ("A dictionary of another model", GENERATE.replace("toy", "other", 1) + "--path verifier.pt"),
    ("A strategy that does not exist", GENERATE + "--path verifier.pt --strategy gadd"),
    ("Text that was not binarised", GENERATE.replace("toy", "text", 1) + "--path verifier.pt"),
    ("A checkpoint that was cut off", GENERATE + "--path half.pt"),
    ("A language model instead of a translation model", GENERATE + "--path lm.pt"),
    ("Weights without their settings", GENERATE + "--path weights.pt"),
    ("A checkpoint that asks for an environment variable", GENERATE + "--path asks.pt"),
    ("A pipe instead of a checkpoint", GENERATE + "--path pipe.pt"),
    ("Binarised text that was cut off", GENERATE.replace("toy", "cut", 1) + "--path verifier.pt"),
    (
        "Text binarised with another dictionary",
        GENERATE.replace("toy", "foreign", 1) + "--path verifier.pt",
    ),
    ("A drafter with another vocabulary", GAD + "--drafter-path larger.pt"),
    ("A drafter with the same words in another order", GAD + "--drafter-path ordered.pt"),
    ("A split that was not binarised", GENERATE + "--path verifier.pt --gen-subset tets"),
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


def language_model(path, verifier):
    """A checkpoint of a language model over the toy's dictionary."""
    defaults = dataclasses.asdict(TransformerLanguageModelConfig())
    args = Namespace(**{k: v for k, v in defaults.items() if not str(v).startswith(("?", "$"))})
    vars(args).update(
        arch="transformer_lm", task="language_modeling", decoder_embed_dim=16, decoder_layers=1,
        decoder_ffn_embed_dim=16, decoder_attention_heads=2, tokens_per_sample=32,
        max_target_positions=32, decoder_input_dim=16, decoder_output_dim=16,
    )  # fmt: skip
    words = dictionary()
    task = Dictionaries(words, words)
    weights = ARCH_MODEL_REGISTRY["transformer_lm"].build_model(args, task).state_dict()
    state = torch.load(str(verifier), weights_only=False)
    state.update(args=args, cfg=None, model=weights)
    torch.save(state, str(path))


def _hostile_checkpoints(home):
    state = torch.load(str(home / "verifier.pt"), weights_only=False)
    torch.save(state["model"], str(home / "weights.pt"))
    state["args"].source_lang, state["args"].target_lang = "src", "tgt"
    torch.save(state, str(home / "trained.pt"))
    state["args"].tokenizer = "${oc.env:HOME}"
    torch.save(state, str(home / "asks.pt"))
    state = torch.load(str(home / "drafter.pt"), weights_only=False)
    state["args"].source_dictionary_sha256 = "0" * 64
    torch.save(state, str(home / "ordered.pt"))
    os.mkfifo(str(home / "pipe.pt"))


def _damaged_data(home):
    for name in ("cut", "foreign"):
        shutil.copytree(str(home / "toy"), str(home / name))
    cut = home / "cut" / "test.src-tgt.src.bin"
    cut.write_bytes(cut.read_bytes()[:-8])
    foreign = home / "foreign" / "test.src-tgt.src.bin"
    foreign.write_bytes(b"\x28\x00" + foreign.read_bytes()[2:])  # token 40, of 28
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
    (home / "text").mkdir()
    (home / "checkpoints").mkdir()
    content = (home / "verifier.pt").read_bytes()
    (home / "half.pt").write_bytes(content[: len(content) // 2])
    state = torch.load(str(home / "drafter.pt"), weights_only=False)
    for side in ("encoder", "decoder"):
        rows = state["model"][f"{side}.embed_tokens.weight"]
        state["model"][f"{side}.embed_tokens.weight"] = torch.cat([rows, rows[:8]])
    torch.save(state, str(home / "larger.pt"))
    _hostile_checkpoints(home)
    _damaged_data(home)
    language_model(home / "lm.pt", home / "verifier.pt")
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
