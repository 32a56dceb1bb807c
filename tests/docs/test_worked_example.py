"""``examples/repeat``: its drafts against a slow search, its output against stock fairseq."""

import importlib.util
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages import ROOT
from toy_hypotheses import open_drafter, rows_of
from toy_pair import write_pair
from toy_translation import EOS

from fairseq_specdec.decoding.strategies import GREEDY, STRATEGIES, register

FOLDER = ROOT / "examples" / "repeat"
# By path: the package would register its strategy in this process.
spec = importlib.util.spec_from_file_location("repeat_drafter", FOLDER / "drafter.py")
drafter = importlib.util.module_from_spec(spec)
spec.loader.exec_module(drafter)

outputs = st.lists(st.lists(st.integers(4, 6), max_size=12), min_size=1, max_size=4)


def slow(output, size, most):
    text = [EOS] + output
    for end in range(len(text) - 1, size - 1, -1):
        if text[end - size : end] == text[-size:]:
            return text[end : end + most]
    return []


@given(outputs, st.integers(1, 4), st.integers(1, 5), st.none() | st.integers(0, 6))
def test_it_drafts_what_followed_the_last_occurrence(rows, size, most, budget):
    session = open_drafter(drafter.RepeatDrafter(most, size), {}, 50, verifier=object())
    draft = session.propose(rows_of(rows), budget)
    width = most if budget is None else min(most, budget)
    drafted = [t[:n] for t, n in zip(draft.tokens.tolist(), draft.sizes.tolist())]
    assert drafted == [slow(row, size, width) for row in rows]


def test_its_output_is_that_of_stock_fairseq(fairseq_command, tmp_path):
    pair = write_pair(tmp_path)
    fairseq_command(
        "preprocess", "-s", "src", "-t", "tgt", "--srcdict", pair / "dict.src.txt", "--tgtdict",
        pair / "dict.tgt.txt", "--testpref", pair / "test.src-tgt", "--destdir", pair / "bin",
    )  # fmt: skip
    texts = []
    for words in (
        ["--task", "translation", "--user-dir", ROOT / "fairseq_specdec"],
        ["--task", "translation_specdec", "--user-dir", FOLDER, "--strategy", "repeat",
         "--max-suffix", 1, "--draft-budget", 0, "--trace-path", pair / "trace.jsonl"],
    ):  # fmt: skip
        out, _ = fairseq_command(
            "generate", pair / "bin", "--path", pair / "verifier.pt", "--beam", 1, "--cpu",
            "--batch-size", 8, *words,
        )  # fmt: skip
        texts.append(re.findall(r"^(H-\d+)\t\S+\t(.*)", out, flags=re.M))
    assert sorted(texts[0]) == sorted(texts[1]) and len(texts[0]) == 40
    traces = map(json.loads, (pair / "trace.jsonl").read_text().splitlines())
    assert any(each["draft"] for trace in traces for each in trace["iterations"])


def test_a_name_that_is_taken_is_refused():
    before = dict(STRATEGIES)
    with pytest.raises(ValueError, match="strategy gad: the name is taken"):
        register("gad", GREEDY)
    assert before == STRATEGIES
