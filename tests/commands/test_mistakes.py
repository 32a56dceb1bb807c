"""Users' mistakes end a command before anything is decoded: one line, flag or file, the remedy."""

import os
import re
import shlex
import subprocess

import pytest
import torch
from in_process import PLUGIN, refused, run_here
from toy_pair import write_pair

GENERATE = "fairseq-generate toy --task translation_specdec --cpu --num-workers 0 --beam 1 "
PLAIN = GENERATE + "--batch-size 16 --path verifier.pt "
GAD = PLAIN + "--strategy gad "
SPS = PLAIN + "--strategy sps --drafter-path verifier.pt "
PIECES = PLAIN + "--bpe sentencepiece "
SEVERAL = PLAIN.replace("translation_specdec", "translation_multi_simple_epoch_specdec")
SKIPPED = "--max-source-positions 1 --skip-invalid-size-inputs-valid-test"
MISTAKES = [
    (GAD, "--strategy gad.*needs --drafter-path"),
    (GAD + "--drafter-path draftr.pt", "--drafter-path.*draftr.pt"),
    (GAD + "--drafter-path text", "--drafter-path.*text"),
    (GAD + "--drafter-path larger.pt", "--drafter-path"),
    (GAD + "--drafter-path altered.pt", "--drafter-path.*shuffled/dict.src.txt"),
    (SPS + "--drafter-dtype int4", "--drafter-dtype int4"),
    (GENERATE + "--path gone --lm-path gone", "--lm-path: cannot be honoured"),
    (GENERATE + "--path verifier.pt --max-tokens 4", r"--max-tokens 4: sentence \d+ has \d+; pass"),
    (PLAIN + "--max-source-positions 2", r"sentence \d+: has .* skip such by --skip-invalid-size"),
    (PLAIN + SKIPPED, "--skip-invalid-size-inputs-valid-test: leaves out all sentences"),
    (PIECES, "--sentencepiece-model: missing"),
    (PIECES + "--sentencepiece-model gone", "--sentencepiece-model gone: no"),
    (PIECES + "--sentencepiece-model text", "is no sentencepiece model"),
    (PLAIN + "--bpe hf_byte_bpe", "--bpe-merges: missing"),
    (PLAIN + "--model-overrides 3", "--model-overrides 3: is no dictionary"),
    (PLAIN + "--model-overrides 'a b('", "--model-overrides .*: is no dictionary"),
    (PLAIN + "--model-overrides \"{'decoder_layers': 1}\"", "its settings describe .*leave out"),
    (GENERATE + "--path checkpoints", "checkpoints: is a folder; name a checkpoint"),
    (GENERATE + "--path weights.pt", "weights.pt: holds no model; name a checkpoint"),
    (GENERATE + "--path pipe.pt", "pipe.pt: is no regular file; name a checkpoint"),
    (GENERATE + "--path verifier.pt,a.pt", "verifier.pt,a.pt: no such file; .* separated by :"),
    (
        PLAIN.replace("toy", "other", 1),
        "verifier.pt: trained with .* symbols .other/dict.src.txt has 24.*--srcdict",
    ),
    (PLAIN.replace("verifier", "trained") + "-s tgt -t src", "--source-lang"),
    (PLAIN + "-s src -t xx", "xx"),
    (SEVERAL + "-s src -t tgt", "--lang-pairs: missing; name the pairs of training"),
    ("specdec-accelerate toy --path drafter.pt --out o", "--path"),
    ("specdec-distill toy --dest o --path none.pt", "--path"),
    ("specdec-convert drafter half.pt whole.pt", "half.pt"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the commands name, under short names."""
    home = write_pair(tmp_path_factory.mktemp("mistakes"))
    (home / "text").write_text("no model\n" * 9)
    (home / "checkpoints").mkdir()
    os.mkfifo(str(home / "pipe.pt"))
    dicts = [home / f"dict.{side}.txt" for side in ("src", "tgt")]
    lines = dicts[0].read_text().splitlines(True)
    texts = {"toy": lines, "other": lines[:20], "shuffled": lines[::-1]}
    for name, each in texts.items():
        (home / name).mkdir()
        for path in dicts:
            (home / name / path.name).write_text("".join(each), encoding="utf-8")
    for name in ("toy", "other"):
        words = {f"{split}pref": home / "test.src-tgt" for split in ("train", "valid", "test")}
        words.update(srcdict=home / name / "dict.src.txt", tgtdict=home / name / "dict.tgt.txt")
        words.update(destdir=home / name, workers=1, source_lang="src", target_lang="tgt")
        run_here("preprocess", **words, cpu=None, num_workers=None)
    write_checkpoints(home)
    return home


def write_checkpoints(home):
    """Cut off, without settings, with a wider vocabulary, with other dictionaries or languages."""
    content = (home / "verifier.pt").read_bytes()
    (home / "half.pt").write_bytes(content[: len(content) // 2])
    state = torch.load(str(home / "verifier.pt"), weights_only=False)
    torch.save(state["model"], str(home / "weights.pt"))
    state["args"].source_lang, state["args"].target_lang = "src", "tgt"
    torch.save(state, str(home / "trained.pt"))
    state = torch.load(str(home / "drafter.pt"), weights_only=False)
    vars(state["args"]).update(data=str(home / "shuffled"), source_lang="src", target_lang="tgt")
    torch.save(state, str(home / "altered.pt"))
    for side in ("encoder", "decoder"):
        rows = state["model"][f"{side}.embed_tokens.weight"]
        state["model"][f"{side}.embed_tokens.weight"] = torch.cat([rows, rows[:8]])
    torch.save(state, str(home / "larger.pt"))


@pytest.mark.parametrize("command, said", MISTAKES)
def test_a_mistake_ends_with_one_line(folder, monkeypatch, command, said):
    monkeypatch.chdir(folder)
    program, *words = shlex.split(command)
    line = refused(program, words).replace(f"{folder}/", "")
    assert line.startswith(f"{program}: error: ") and re.search(said, line), line
    assert "\n" not in line and len(line) < 400


def test_a_process_prints_that_line_alone(folder, warm_python):
    """By the hook that the plugin sets in fairseq's commands."""
    words = ["-m", "fairseq_cli.generate", *shlex.split(GAD)[1:], "--user-dir", PLUGIN]
    done = subprocess.run(
        [str(warm_python.python), *words], cwd=str(folder), capture_output=True, text=True
    )
    line = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert line.startswith("fairseq-generate: error: --strategy gad: needs --drafter-path")


def test_what_is_no_mistake(folder, monkeypatch):
    """--beam 1 needs no word; Moses takes the languages of the data."""
    monkeypatch.chdir(folder)
    flags = {"task": "translation_specdec", "path": "verifier.pt", "batch_size": 16, "beam": 1}
    out, log = run_here("generate", "toy", tokenizer="moses", **flags)
    assert "--beam" not in log and "H-0" in out
