"""specdec-noise: the same corpus however it is made, whole or absent, mistakes named."""

import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest
from killing import killed_at
from terminals import own_logging, terminal_on_stderr

from fairseq_specdec.noise import cli
from fairseq_specdec.noise.cli import cli_main

REPO = pathlib.Path(__file__).resolve().parents[2]
SETS = "the\ta\tthis\nfile\tfill\tfiles\ntable\ttables\ncell\tsell\tcells\nis\tare\n"
NAMES = ("train.src", "train.tgt")


@pytest.fixture
def text(tmp_path):
    """A clean text of 50 lines, the seventh of them empty, the last without a line feed."""
    lines = [f"The file {n} is in the  table cell ." for n in range(50)]
    lines[6] = ""
    path = tmp_path / "clean.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "sets.tsv").write_text(SETS)
    return path


@pytest.fixture
def noise(text, tmp_path):
    """Run the command; the destination."""

    def run(name, *flags, **environment):
        dest = tmp_path / name
        words = [
            text, "--dest", dest, "--confusion-sets", tmp_path / "sets.tsv", "--chunk-size", 8,
            *flags,
        ]  # fmt: skip
        with pytest.MonkeyPatch.context() as patch:
            for key, value in environment.items():
                patch.setenv(key, str(value))
            cli_main([str(word) for word in words])
        return dest

    return run


def corpus(dest):
    return [(dest / name).read_bytes() for name in NAMES]


def test_pairs_and_report(noise, text):
    dest = noise("out")
    faulty, clean = (part.decode("utf-8").splitlines() for part in corpus(dest))
    expected = [" ".join(line.split()) for line in text.read_text().splitlines() if line]
    assert clean == expected and len(faulty) == 49
    changed = sum(a != b for a, b in zip(faulty, clean))
    assert 20 < changed < 49
    report = json.loads((dest / "noise.json").read_text())
    assert report["counts"] == {"lines": 50, "pairs": 49, "changed": changed, "empty": 1}
    assert report["settings"]["--substitute"] == 0.7 and report["settings"]["--seed"] == 1
    assert report["runs"][0]["command"].startswith("specdec-noise ")
    hashes = [hashlib.sha256(part).hexdigest() for part in corpus(dest)]
    assert report["files"] == dict(zip(NAMES, hashes))
    assert not list(dest.parent.glob("*.parts"))


def test_any_number_of_shards_and_chunks_gives_the_same(noise):
    whole = corpus(noise("whole"))
    for shard in ("1/3", "0/3"):
        assert not noise("three", "--shard", shard).exists()
    assert corpus(noise("three", "--shard", "2/3")) == whole
    assert corpus(noise("fine", "--chunk-size", 1)) == whole
    noise("torchrun", RANK=1, WORLD_SIZE=2)
    assert corpus(noise("torchrun", RANK=0, WORLD_SIZE=2)) == whole
    assert corpus(noise("other", "--seed", 2))[0] != whole[0]
    assert corpus(noise("more", "--error-mean", 0.5))[0] != whole[0]
    # Nothing at all may be asked for: 0 is a value.
    none = corpus(noise("none", "--error-mean", 0, "--error-deviation", 0, "--spelling", 0))
    assert none[0] == none[1]


@pytest.mark.parametrize(
    "how", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_ended_at_any_moment_and_resumed_nothing_is_lost_or_doubled(noise, text, how):
    lines = text.read_bytes().split(b"\n")
    text.write_bytes(b"\n".join([*lines, *lines[:3], b"", b" \t", b"\xe6\x88\x91 ok"]))
    whole = corpus(noise("whole"))
    ends = 0
    # Settings, 7 chunks, the report, and the corpus itself are renamed into place.
    while killed_at(lambda name=f"out{ends}": noise(name), ends, how):
        dest = text.parent / f"out{ends}"
        assert not dest.exists()
        assert how == signal.SIGKILL or not list(text.parent.glob("*.parts/**/*.tmp-*"))
        assert corpus(noise(dest.name)) == whole and not list(text.parent.glob("*.parts"))
        ends += 1
    assert ends == 10
    # One work folder, ended again and again.
    for moment in range(4, 8):
        killed_at(lambda moment=moment: noise("often"), moment, how)
    assert corpus(noise("often")) == whole


def test_a_shard_is_made_by_one_process_at_a_time(noise, monkeypatch, tmp_path):
    real, messages = cli.noise_line, []

    def meanwhile(*line):
        if not messages:
            messages.append("")  # once
            with pytest.raises(SystemExit) as caught:
                noise("out", "--shard", "0/2")
            messages[0] = str(caught.value)
        return real(*line)

    monkeypatch.setattr(cli, "noise_line", meanwhile)
    noise("out", "--shard", "0/2")
    whose = f"is being written by process {os.getpid()} on "
    assert messages[0].startswith(f"specdec-noise: error: --dest: {tmp_path / 'out'} {whose}")


@pytest.mark.parametrize(
    "flags, why",
    [
        (["--error-mean", "2"], "--error-mean 2.0: must be from 0 to 1"),
        (["--error-mean", "nan"], "--error-mean nan: must be from 0 to 1"),
        (["--spelling", "1.5"], "--spelling 1.5: must be from 0 to 1"),
        (["--error-deviation", "-1"], "--error-deviation -1.0: must be"),
        (["--swap", "inf"], "--swap inf: must be 0 or more, finite"),
        (["--confusions", "0"], "--confusions 0"),
        (["--chunk-size", "0"], "--chunk-size 0"),
        (["--shard", "3/3"], "--shard 3/3"),
        (["--source-suffix", "tgt"], "--source-suffix, --target-suffix"),
        (["--name", "a/b"], "--name 'a/b'"),
        (["--confusion-sets", "/nowhere"], "--confusion-sets: /nowhere is no file"),
        (["--merge"], "--merge: 7 chunks of .* are not finished"),
    ],
)
def test_mistakes_are_named(noise, flags, why):
    with pytest.raises(SystemExit, match=f"specdec-noise: error: {why}"):
        noise("out", *flags)


def test_results_of_other_settings_are_not_mixed(noise, text, tmp_path):
    noise("out")
    with pytest.raises(SystemExit, match="--seed: was 1, now is 2"):
        noise("out", "--seed", 2)
    with pytest.raises(SystemExit, match="--error-mean: was 0.15, now is 0.3"):
        noise("out", "--error-mean", 0.3)
    noise("half", "--shard", "0/2")
    with pytest.raises(SystemExit, match="--seed: was 1, now is 2"):
        noise("half", "--shard", "1/2", "--seed", 2)
    before = corpus(tmp_path / "out")
    assert corpus(noise("out", "--seed", 2, "--overwrite")) != before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("mine")
    with pytest.raises(SystemExit, match="was not made by this command"):
        noise("mine")
    text.write_bytes(b"fine\n\xff\xfe\n")
    with pytest.raises(SystemExit, match="line 2: is not UTF-8"):
        noise("latin")
    sets = tmp_path / "sets.tsv"
    sets.write_bytes(b"the\t\xff\n")
    with pytest.raises(SystemExit, match="sets.tsv: is not UTF-8"):
        noise("sets", "--shard", "0/1")
    text.write_bytes(b"")
    with pytest.raises(SystemExit, match="is empty"):
        noise("empty")


def test_the_command_is_quiet_without_a_terminal_and_the_same_in_another_process(
    noise, text, tmp_path
):
    whole = corpus(noise("whole"))
    command = [
        sys.executable, "-m", "fairseq_specdec.noise.cli", str(text), "--dest",
        str(tmp_path / "out"), "--confusion-sets", str(tmp_path / "sets.tsv"),
    ]  # fmt: skip
    environment = dict(os.environ, PYTHONHASHSEED="7", PYTHONPATH=str(REPO))
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "" and "\r" not in done.stderr and "it/s" not in done.stderr
    assert corpus(tmp_path / "out") == whole


def test_a_bar_on_a_terminal_and_none_in_a_pipe(noise, capfd):
    with terminal_on_stderr() as shown:
        noise("out")
    assert "50/50" in shown.text and "\r" in shown.text, shown.text
    assert capfd.readouterr().out == ""
    with own_logging():
        noise("again")
    printed = capfd.readouterr()
    assert printed.out == "" and "\r" not in printed.err and "50/50" not in printed.err
