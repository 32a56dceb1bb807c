"""Beams in the benchmark: identity over all hypotheses, near-ties, steps and nodes a pass."""

import pytest

from fairseq_specdec.bench.outputs import NEAR, Output, compare
from fairseq_specdec.decoding.generator import SpeculativeGenerator


def output(tokens, *scores):
    """A hypothesis with these log-probabilities, one for each token."""
    totals = [sum(scores[: i + 1]) for i in range(len(scores))]
    return Output(list(tokens), totals, totals[-1] / len(tokens))


ONE, TWO = output("ab", -1.0, -2.0), output("cd", -1.5, -2.0)


NEARLY = output("acx", -1, -1 - 0.4 * NEAR, -2)
RANKED = output("abc$", -1.0, -2.5, -1.5, -1.0 + 1.6 * NEAR)
FAR = output("abc$", -1.0, -2.5, -1.5, -1.0 + 16 * NEAR)
LAST = output("a$", -1.0, -2.0)


@pytest.mark.parametrize(
    "mine, theirs, count, same, near",
    [
        ([ONE, TWO], [ONE, output("ce", -1.5, -2.0)], 1, True, False),
        ([ONE, TWO], [ONE, output("ce", -1.5, -2.0)], 2, False, True),
        ([ONE], [ONE, TWO], 2, False, False),
        ([ONE], [ONE, TWO], 1, True, False),
        ([Output(list("ab"))], [ONE, TWO], 2, True, False),  # an engine without scores
        ([Output(list("cd"))], [ONE, TWO], 2, False, False),
        ([output("abx", -1, -1, -3)], [NEARLY], 1, False, True),
        ([output("abx", -1, -2, -3)], [NEARLY], 1, False, False),
        ([LAST, RANKED], [RANKED, LAST], 2, False, True),  # close in rank
        ([LAST, FAR], [FAR, LAST], 2, False, False),
    ],
)
def test_hypotheses_are_compared(mine, theirs, count, same, near):
    assert compare(mine, theirs, count)[:2] == (same, near)


def test_beams_are_compared_with_stock_at_their_beam(bench):
    result, printed = bench(
        "--system", "plain: --strategy greedy --nbest 3",
        "--system", "copy: --strategy iad --lenpen 0.3 --backend torch",
        "--system", "one: --strategy iad --beam 1 --nbest 1",
        "--warmup", 0, "--beam", 4, "--nbest", 4,
    )  # fmt: skip
    rows = {row["system"]: row for row in result["runs"][0]["rows"]}
    stock = [f"fairseq beam {beam}" for beam in (5, 1, 4)]
    assert list(rows) == [*stock, "greedy beam 4 torch", "greedy", "plain", "copy", "one"]
    assert rows["fairseq beam 4"]["identical_to"] == "fairseq beam 1"
    assert rows["fairseq beam 4"]["identical_percent"] > 0
    assert rows["plain"]["identical_to"] == "fairseq beam 4" != rows["one"]["identical_to"]
    for name in ("plain", "copy", "one"):
        assert rows[name]["identical_percent"] == 100 and rows[name]["near_ties"] == 0
        assert 0 <= rows[name]["score_difference"] < 1e-5
    assert result["warnings"] == [] and "near-ties |" not in printed


@pytest.mark.parametrize(
    "nbest, change, identical",
    [
        (1, lambda outputs: outputs[0]["positional_scores"].sub_(0.001), 100),
        (3, lambda outputs: outputs.insert(1, outputs.pop()), 0),
    ],
)
def test_wrong_scores_and_hypotheses_are_reported(bench, monkeypatch, nbest, change, identical):
    """Below the best too, where they are asked for."""
    original = SpeculativeGenerator.generate

    def generate(*args, **more):
        outputs = original(*args, **more)
        for hypotheses in outputs:
            change(hypotheses)
        return outputs

    monkeypatch.setattr(SpeculativeGenerator, "generate", generate)
    system = "a: --strategy greedy --beam 3 --nbest"
    result, printed = bench("--limit", 4, "--warmup", 0, "--system", f"{system} {nbest}")
    row = result["runs"][0]["rows"][-1]
    assert row["identical_percent"] == identical
    assert row["score_difference"] > 1e-4 or not identical
    (warning,) = result["warnings"]
    assert "4 of 4 outputs differ" in warning and warning in printed
