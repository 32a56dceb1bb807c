"""Decoding through fairseq's own commands: what they print equals what stock prints at beam 1."""

import functools
import os
import re
import subprocess
import sys

import pytest
from attempts import assert_same
from in_process import PLUGIN, hypotheses, lines_of, run_here
from toy_translation import assert_diverse

SUMMARY = re.compile(
    r"strategy (\S+): (\d+) sentences, (\d+) iterations \(([\d.]+) a sentence\), ([\d.]+) mean "
    r"accepted tokens, ([\d.]+)% of (\d+) drafted tokens accepted; [\d.]+ s: encoder [\d.]+ s / "
    r"drafter encoder [\d.]+ s / drafter [\d.]+ s / verifier [\d.]+ s / rest [\d.]+ s"
)
EXACT = ["greedy", "iad", "gad"]


@functools.cache
def decode(toy_data, path, drafter, flags):
    given = dict({"batch_size": 16, "beam": 1, "path": path}, **dict(flags))
    if given.get("strategy") in ("gad", "gad++", "specdec"):
        given.update({"drafter_path": drafter, "block_size": 4})
    return run_here("generate", toy_data, **given)


@pytest.fixture
def generate(toy):
    def run(path=toy.v, **flags):
        return decode(toy.data, path, toy.d, tuple(sorted(flags.items())))

    return run


def compare(generate, strategy, own=None, **flags):
    reference = hypotheses(generate(task="translation", **flags)[0])
    out, log = generate(task="translation_specdec", strategy=strategy, **flags, **(own or {}))
    assert_same(hypotheses(out), reference)
    return reference, log


@pytest.mark.parametrize(
    "strategy, batch_size", [("greedy", 16), ("iad", 1), ("gad", 1), ("gad", 16)]
)
def test_prints_what_stock_prints(generate, strategy, batch_size):
    whole = {} if strategy == "greedy" else {"draft_budget": 0}
    reference, log = compare(generate, strategy, whole, batch_size=batch_size)
    assert_diverse([words for words, _, _ in reference.values()])
    name, sentences, iterations, each, accepted, _, drafted = SUMMARY.search(log).groups()
    assert (name, sentences) == (strategy, "100")
    emitted = sum(len(words) + 1 for words, _, _ in reference.values())
    assert float(accepted) == pytest.approx(emitted / int(iterations), abs=0.006)
    assert float(each) == pytest.approx(int(iterations) / 100, abs=0.006)
    if strategy == "greedy":
        assert (int(iterations), drafted) == (emitted, "0")
    else:
        assert int(iterations) < emitted
    if strategy == "gad":
        assert float(accepted) > 1.1


@pytest.mark.parametrize(
    "strategy, flags",
    [("gad", {"prefix_size": 2}), ("iad", {"min_len": 9, "no_repeat_ngram_size": 2})],
    ids=str,
)
def test_flags_mean_what_they_mean_in_stock(generate, strategy, flags):
    reference, _ = compare(generate, strategy, **flags)
    assert reference != hypotheses(generate(task="translation")[0]), "the flag changed nothing"


def test_an_ensemble_equals_stock(toy, other, generate):
    both = f"{toy.v}{os.pathsep}{other[0] / 'checkpoint_last.pt'}"
    reference = hypotheses(generate(path=both, task="translation")[0])
    alone = hypotheses(generate(task="translation")[0])
    assert any(reference[i][1] != alone[i][1] for i in alone)
    for strategy in EXACT:
        out, _ = generate(path=both, task="translation_specdec", strategy=strategy)
        assert_same(hypotheses(out), reference)


@pytest.mark.parametrize("strategy", [*EXACT, "gad++"])
def test_steps_and_traces(generate, strategy):
    whole = {"draft_budget": 0} if strategy == "gad++" else {}  # else there are none in batches
    out, log = generate(
        task="translation_specdec", strategy=strategy, print_step=True, retain_iter_history=True,
        **whole,
    )  # fmt: skip
    steps = {number: int(step) for number, step in lines_of("I", out).items()}
    assert len(steps) == 100
    assert sum(steps.values()) == int(SUMMARY.search(log).group(3))
    history = lines_of("E", out)
    drafted = 0
    for number, (words, _, _) in hypotheses(out).items():
        assert f"{number}_{2 * steps[number]}" not in history
        rounds = [history[f"{number}_{i}"].split() for i in range(2 * steps[number])]
        drafts, emitted = rounds[::2], rounds[1::2]
        assert sum(emitted, []) == words
        drafted += sum(map(len, drafts))
    assert (drafted > 0) == (strategy != "greedy")


def test_as_a_user_runs_it(toy, generate, tmp_path, fairseq_command):
    """A process of its own, drafting: the same output, and the summary once. With
    ``--results-path`` fairseq may log to that file, closed before the process ends."""
    _, log = fairseq_command(
        "generate", toy.data, "--user-dir", PLUGIN, "--task", "translation_specdec", "--path",
        toy.v, "--beam", 1, "--batch-size", 16, "--cpu", "--strategy", "gad", "--drafter-path",
        toy.d, "--block-size", 4, "--results-path", tmp_path,
    )  # fmt: skip
    assert "Logging error" not in log
    text = (tmp_path / "generate-test.txt").read_text(encoding="utf-8")
    assert_same(hypotheses(text), hypotheses(generate(task="translation")[0]))
    assert [match[1] for match in SUMMARY.findall(text + log)] == ["100"]


def test_a_command_draws_what_stock_draws(toy, fairseq_command):
    """With the same seed, which stock sets before it draws the weights of a model."""
    flags = ("--path", toy.v, "--beam", 1, "--batch-size", 16, "--cpu", "--seed", 3, "--sampling")
    words = (toy.data, "--user-dir", PLUGIN, *flags, "--task")
    stock, _ = fairseq_command("generate", *words, "translation")
    ours, _ = fairseq_command("generate", *words, "translation_specdec", "--strategy", "greedy")
    assert_same(hypotheses(ours), hypotheses(stock))


def test_interactive_with_piped_input(toy, generate):
    reference = hypotheses(generate(task="translation")[0])
    sources = lines_of("S", generate(task="translation")[0])
    text = "".join(sources[str(i)] + "\n" for i in range(100))
    done = subprocess.run(
        [
            sys.executable, "-m", "fairseq_cli.interactive", str(toy.data), "--user-dir", PLUGIN,
            "--task", "translation_specdec", "--path", toy.v, "--beam", "1", "--cpu",
            "--strategy", "gad", "--drafter-path", toy.d, "--buffer-size", "40",
            "--batch-size", "8",
        ],
        input=text,
        env=dict(os.environ, OMP_NUM_THREADS="1"),
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert_same(hypotheses(done.stdout), reference)
    assert SUMMARY.search(done.stderr).group(2) == "100"
