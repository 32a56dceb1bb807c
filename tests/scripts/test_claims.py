"""The verdicts on the papers' claims follow from the figures of single sentences."""

import json
import random

import numpy
import pytest
from ende_small import claims
from sacrebleu.metrics import BLEU

COUNT = 120
REFERENCES = [f"the {n} of all the {n + 1} lines is a long line of {n} words" for n in range(COUNT)]


def blurred(share, seed):
    """The references with this share of their words spoiled."""
    rng = random.Random(seed)
    return [
        " ".join("bad" if rng.random() < share else word for word in line.split())
        for line in REFERENCES
    ]


def system(tok=2.0, texts=REFERENCES, seed=1):
    """Columns of a system with about so many tokens per iteration."""
    rng = random.Random(seed)
    tokens = [rng.randrange(10, 40) for _ in range(COUNT)]
    steps = [max(1, round(t / tok + rng.gauss(0, 0.3))) for t in tokens]
    ones = [BLEU().corpus_score([text], [[line]]) for text, line in zip(texts, REFERENCES)]
    return {
        "tokens": tokens,
        "iterations": steps,
        "words": [one.sys_len for one in ones],
        "matches": [list(part) for part in zip(*(one.counts for one in ones))],
    }


def run_of_toys(systems, milliseconds=None, load=0.5):
    """What specdec-bench writes of these systems, as far as claims are judged by it."""
    rng = random.Random(7)
    part = {
        "batch_size": 1,
        "load_average": load if load is None else [load, 99.0, 99.0],
        "ms_by_batch": {
            name: [rng.uniform(0.9, 1.1) * each for _ in range(COUNT)]
            for name, each in {"fairseq beam 5": 100.0, **(milliseconds or {})}.items()
        },
        "by_sentence": {
            "id": list(range(COUNT)),
            "reference_words": [len(line.split()) for line in REFERENCES],
            "systems": systems,
        },
    }
    return {"provenance": {"threads": 2}, "runs": [part]}


def judged(test, *names, figure="tok", **measured):
    line = claims.Line("It is so.", "Ge et al. Table 1", "base", figure, test, list(names))
    return claims.judge(line, claims.Run(run_of_toys(**measured)))


def toks(**values):
    return {name: system(tok) for name, tok in values.items()}


@pytest.mark.parametrize(
    ("test", "values", "verdict"),
    [
        ("greater", (3.0, 2.0), "holds"),
        ("greater", (2.0, 3.0), "does not hold"),
        ("greater", (2.0, 2.0), "undecided"),  # the same on every sentence
        ("equal", (2.02, 2.0), "holds"),
        ("equal", (2.5, 2.0), "does not hold"),
        ("equal", (2.0, 2.5), "does not hold"),
        ("rises", (2.0, 2.5, 3.0), "holds"),
        ("rises", (2.0, 2.5, 2.5), "holds"),
        ("rises", (2.0, 3.0, 2.5), "does not hold"),
        ("rises", (2.0, 2.0), "undecided"),
        ("peaks", (2.0, 3.0, 4.0, 3.0), "holds"),
        ("peaks", (2.0, 3.0, 4.0), "does not hold"),  # still rising
        ("peaks", (4.0, 3.0, 2.0), "does not hold"),
        ("peaks", (2.0, 3.0, 3.0), "undecided"),  # flat
    ],
)
def test_a_clear_difference_decides(test, values, verdict):
    systems = {f"k={n}": system(tok) for n, tok in enumerate(values)}
    result = judged(test, *systems, systems=systems)
    assert result.verdict == verdict, result
    for name, columns in systems.items():
        tok = sum(columns["tokens"]) / sum(columns["iterations"])
        assert f"{name} {tok:.2f}" in result.figures


def constant(measured, *resampled):
    """A figure as measured, and so often the resampled ones that they are its quartiles, too."""
    return numpy.array([measured, *(x for x in resampled for _ in range(40))])


@pytest.mark.parametrize(
    ("resampled", "verdict"),
    [
        ((0.95,), "holds"),
        ((1.05,), "holds"),
        ((0.90, 0.95), "undecided"),
        ((1.05, 1.10), "undecided"),
        ((0.90, 1.00), "undecided"),
        ((1.00, 1.10), "undecided"),
        ((0.90, 0.94), "does not hold"),
        ((1.06, 1.10), "does not hold"),
    ],
)
def test_figures_are_equal_within_a_margin_of_5_percent(resampled, verdict):
    assert (
        claims.same(constant(1.0, *resampled), constant(1.0, *(1.0 for _ in resampled))).verdict
        == verdict
    )


def test_speed_is_judged_by_the_times_unless_the_machine_was_busy(monkeypatch):
    systems, times = toks(a=2, b=2), {"a": 20.0, "b": 40.0}
    asked = {"figure": "speed", "systems": systems, "milliseconds": times}
    assert judged("greater", "a", "b", **asked).verdict == "holds"
    assert judged("greater", "b", "a", **asked).verdict == "does not hold"
    busy = judged("greater", "a", "b", load=3.6, **asked)
    assert busy.verdict == "undecided" and "the machine was busy (load average 4)" in busy.figures
    for load in (3.0, None):  # two threads and what else runs; not known
        assert judged("greater", "a", "b", load=load, **asked).verdict == "holds"
    monkeypatch.setattr(claims, "LEAST", COUNT + 1)
    few = judged("greater", "a", "b", **asked)
    assert few.verdict == "undecided" and few.figures.endswith("of 120 sentences only")


def test_bleu_is_the_corpus_s():
    texts = {"good": blurred(0.05, 1), "bad": blurred(0.4, 2), "also good": blurred(0.05, 3)}
    texts["short"] = ["the", *texts["good"][1:]]
    texts["words alone"] = ["lines bad the bad of bad"] * COUNT  # none of two words is right
    systems = {name: system(texts=lines) for name, lines in texts.items()}
    run = claims.Run(run_of_toys(systems))
    for name, lines in texts.items():
        expected = BLEU().corpus_score(lines, [REFERENCES]).score
        assert run.figure("bleu", name)[0] == pytest.approx(expected)
    assert judged("greater", "good", "bad", figure="bleu", systems=systems).verdict == "holds"
    close = judged("greater", "good", "also good", figure="bleu", systems=systems)
    assert close.verdict == "undecided"


CLAIMS = """
claims:
  A beats B:
    where: Ge et al. Table 1
    set: base
    tests: [tok greater: [a, b], tok rises: [b, a]]
  C is fast: {where: Xia et al. Table 1, set: other, tests: [speed greater: [c, a]]}
  C is good: {where: Xia et al. Table 1, set: base, tests: [bleu greater: [c, a]]}
"""


def write(tmp_path, run):
    (tmp_path / "recipe.yaml").write_text(CLAIMS, encoding="utf-8")
    (tmp_path / "base.json").write_text(json.dumps(run), encoding="utf-8")
    output = tmp_path / "reports" / "claims.md"
    claims.write(tmp_path / "recipe.yaml", tmp_path, "a note", output)
    return output


def test_the_program_writes_claims_and_the_tests_behind_them(tmp_path):
    text = write(tmp_path, run_of_toys(toks(a=3, b=2))).read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in text.splitlines()]
    assert ["A beats B", "Ge et al. Table 1", "holds"] in rows
    assert ["C is fast", "Xia et al. Table 1", "not run"] in rows  # no such set
    assert "- C is good (base, bleu greater): not run. -\n" in text  # no such system
    assert "- A beats B (base, tok rises): holds. b " in text and text.endswith("\n- a note\n")


def test_a_run_without_figures_of_sentences_is_named_with_the_remedy(tmp_path):
    run = run_of_toys(toks(a=2, b=2))
    del run["runs"][0]["by_sentence"]
    with pytest.raises(ValueError, match="base.json: has no figures .*again with --by-sentence"):
        write(tmp_path, run)
