"""Sweeps and greedy rows; plain functions of the benchmark."""

from types import SimpleNamespace

import pytest
from sacrebleu.metrics import BLEU

from fairseq_specdec.bench import session, tables
from fairseq_specdec.bench.outputs import Texts
from fairseq_specdec.bench.systems import Plan, greedy_of
from fairseq_specdec.bench.workload import every_nth


def test_a_limit_spreads_over_the_lengths():
    assert every_nth(range(100), 4) == [0, 25, 50, 75]
    assert every_nth(range(3), 10) == every_nth(range(3), None) == [0, 1, 2]


def test_a_sweep_crosses_the_flags_of_one_system(bench, pair, tmp_path):
    system = f"{{}}: --strategy {{}} --drafter-path {pair.d}"
    result, printed = bench(
        "--system", system.format("loose", "gad++"), "--system", system.format("g", "gad"),
        "--limit", 2, "--warmup", 0,
        "--sweep", "loose: block_size=2,4", "--sweep", "loose: --tau=0,1,2",
        "--sweep", "g: keep_weights=true,false",
    )  # fmt: skip
    rows = {row["system"]: row for row in result["runs"][0]["rows"]}
    names = [f"loose block_size={k} tau={tau}" for k in (2, 4) for tau in (0, 1, 2)]
    others = ["g keep_weights=true", "g keep_weights=false"]
    assert list(rows) == ["fairseq beam 5", "fairseq beam 1", "greedy", *names, *others]
    assert [result["systems"][i]["settings"]["keep_weights"] for i in (-2, -1)] == [True, False]
    assert rows[names[5]]["sweep"] == {"block_size": "4", "tau": "2"}
    assert rows[names[5]]["base"] == "loose" and rows["fairseq beam 5"]["sweep"] == {}
    described = {system["name"]: system for system in result["systems"]}
    assert described[names[5]]["settings"]["block_size"] == 4
    assert described[names[5]]["settings"]["tau"] == 2.0
    assert rows[names[0]]["tok"] <= 3 and names[5] in printed
    assert result["warnings"] == []


@pytest.fixture
def read(pair):
    """What a command line asks for."""

    def asked(*words):
        return session.read(
            [pair.data, "--path", pair.v, "-s", "src", "-t", "tgt", "--cpu", *words]
        )

    return asked


@pytest.mark.parametrize(
    ("systems", "rows"),
    [
        (["a: --strategy iad"], ["greedy", "a"]),
        (["a: --strategy iad", "g: --strategy greedy"], ["a", "g"]),
        (["a: --strategy iad", "b: --strategy iad --block-size 3"], ["greedy", "a", "b"]),
        (["a: --strategy iad --beam 4", "g: --strategy greedy"], ["greedy beam 4", "a", "g"]),
        (["a: --strategy iad --verifier-dtype int8"], ["greedy int8", "a"]),
        (["greedy: --strategy iad"], ["greedy, plain", "greedy"]),
        (["n: --strategy none"], ["n"]),
        ([], []),
    ],
)
def test_each_beam_and_number_format_has_a_greedy_row(read, systems, rows):
    plans = read(*(word for text in systems for word in ("--system", text))).plans
    assert [plan.name for plan in plans] == rows


def plan(name, strategy, beam=1, paths=("v",), dtype="fp32"):
    engine = {"verifier_dtype": dtype, "backend": "auto", "cuda_graphs": "auto"}
    settings = {"strategy": strategy, **engine} if strategy else {}
    return Plan(name, paths, {"beam": beam}, settings=settings)


def test_a_row_is_compared_with_its_own_verifier_beam_and_format():
    rows = [
        plan("stock", None), plan("g", "greedy"), plan("h", "greedy", paths=("w",)),
        plan("g4", "greedy", 4), plan("gad", "gad"), plan("heads", "blockwise", 1, ("w",)),
        plan("wide", "iad", 4, ("x",)), plan("bf16", "gad", dtype="bf16"),
    ]  # fmt: skip
    compared = [greedy_of(row, rows) for row in rows]
    names = [other and other.name for other in compared]
    assert names == [None, "g", "h", "g4", "g", "h", "g4", None]


ROW = {
    "system": "gad", "bleu": 20.0, "tok": 3.0, "ms_mean": 3.0,
    "ms_by_section": dict.fromkeys(tables.SECTIONS, 1.0),
}  # fmt: skip


def test_missing_figures_are_dashes_and_empty_columns_are_left_out():
    head, first, _ = tables.cells(tables.SPEED, [dict(ROW, bleu=None), ROW])
    assert first[head.index("BLEU")] == "-" and "near-ties" not in head
    _, first, _ = tables.cells(tables.TIME, [dict(ROW, ms_by_section=None), ROW])
    assert set(first[1:]) == {"-"}
    assert r"| a\|b" in tables.markdown([tables.SYSTEM], [{"system": "a|b"}])


def test_compounds_are_split_on_both_sides():
    wanted = {1: "die gut-gemachte Sache ist nun fertig .", 2: "ein Test mit vier Worten mehr ."}
    got = {1: wanted[1].replace("gut", "schlecht"), 2: wanted[2]}

    class Looked(Texts):
        def __init__(self, tokenised):
            self.tokenised, self.bleu = tokenised, BLEU(tokenize="none", force=True)

        def __call__(self, tokens, reference=False):
            return (wanted if reference else got)[tokens[0]]

    numbers = {number: [number] for number in wanted}
    data = SimpleNamespace(tgt=numbers)
    quality = Looked(True).quality({"ours": numbers}, data)["ours"]
    ours, theirs = ([s.replace("-", " ##AT##-##AT## ") for s in d.values()] for d in (got, wanted))
    score = BLEU(tokenize="none", force=True).corpus_score(ours, [theirs]).score
    assert quality["bleu"] < quality["bleu_compound"] == pytest.approx(score)
    assert quality["exact_percent"] == 50
    assert Looked(False).quality({"ours": numbers}, data)["ours"]["bleu_compound"] is None
