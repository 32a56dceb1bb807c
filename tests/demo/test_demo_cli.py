"""``specdec-demo`` at the prompt."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from fairseq_specdec.demo.cli import DECODING, cli_main, get_parser, start


def test_help_names_defaults_and_symbols(capsys):
    with pytest.raises(SystemExit) as ended:
        get_parser().parse_args(["--help"])
    assert ended.value.code == 0
    help_text = " ".join(capsys.readouterr().out.split())
    for words in ("(default: 8642)", "default: demo_ende", "127.0.0.1", "(default: fp32)"):
        assert words in help_text
    for symbol in ("k, tokens drafted", "beta: a draft", "alpha_FB", "alpha_RB"):
        assert symbol in help_text
    for flag in DECODING:
        assert "--" + flag.replace("_", "-") in help_text


@pytest.fixture
def taken():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen(1)
        yield holder.getsockname()[1]


def test_a_taken_port_is_known_before_models_are(taken, monkeypatch):
    monkeypatch.setattr("fairseq_specdec.demo.cli.load_racers", None)
    with pytest.raises(SystemExit, match=f"error: --port {taken}: already in use; .*--port 0"):
        cli_main(["--port", str(taken)])


@pytest.mark.parametrize(
    "words, message",
    [
        (["--path", "nowhere.pt"], "error: --path: no such file: nowhere.pt; give a checkpoint"),
        (["--path", "a.pt", "--pair", "demo_ende"], "--pair and --path: choose one"),
        (["--repeats", "-1"], "--repeats -1: must be 0 or more"),
        (["--path", "PAIR", "--data", "nowhere"], "error: --data: no such folder: nowhere"),
        (["--path", "PAIR", "--strategies", "bild"], "--strategies bild: needs .*--small-path"),
        (["--path", "PAIR", "--top-beta", "0"], "--top-beta 0"),
        (["--path", "PAIR", "--block-size", "9"], "--block-size 9: the drafter"),
        (["--path", "PAIR", "--device", "cpu", "--dtype", "fp16"], "--dtype fp16: not on a CPU"),
        (["--path", "PAIR", "--bpe", "bp"], "--bpe 'bp': fairseq has"),
    ],
)
def test_mistakes_are_named(pair, words, message):
    words = [str(pair) if word == "PAIR" else word for word in words]
    with pytest.raises(SystemExit, match=message):
        cli_main(["--port", "0", *words])


def test_a_failed_start_frees_the_port(pair):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
    with pytest.raises(ValueError, match="top.beta"):
        start(["--port", str(port), "--path", str(pair), "--top-beta", "0"])
    start(["--port", str(port), "--path", str(pair), "--device", "cpu"]).server_close()


def test_it_serves_until_interrupted(pair):
    code = "from fairseq_specdec.demo.cli import cli_main; cli_main()"
    words = ["--port", "0", "--path", str(pair), "--device", "cpu", "--strategies", "greedy"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        env=dict(os.environ, OMP_NUM_THREADS="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline()
        assert line.startswith("greedy race at http://127.0.0.1:"), process.stderr.read()
        url = line.split()[3]
        assert b"Strategies race: src to tgt" in urllib.request.urlopen(url, timeout=240).read()
        process.send_signal(signal.SIGINT)
        assert process.wait(240) == 0
        assert "Traceback" not in process.stderr.read()
    finally:
        process.kill()
        process.communicate()
