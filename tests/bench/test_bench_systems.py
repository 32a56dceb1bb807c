"""Sweeps, pictures and the page; plain functions of the benchmark."""

import builtins
import importlib.util
import json
import math

import pytest

from fairseq_specdec.bench import page, plots, tables
from fairseq_specdec.bench.plots import Picture
from fairseq_specdec.bench.workload import every_nth

needs_matplotlib = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="needs the extra plots"
)


def test_a_limit_spreads_over_the_lengths():
    assert every_nth(range(100), 4) == [0, 25, 50, 75]
    assert every_nth(range(3), 10) == every_nth(range(3), None) == [0, 1, 2]


def test_a_sweep_crosses_the_flags_of_one_system(bench, pair, tmp_path):
    system = f"loose: --strategy gad++ --drafter-path {pair.d}"
    result, printed = bench(
        "--system", system, "--system", "g: --strategy greedy", "--limit", 2, "--warmup", 0,
        "--sweep", "loose: block_size=2,4", "--sweep", "loose: --tau=0,1,2",
        "--sweep", "g: no_repeat_ngram_size=0,2",
    )  # fmt: skip
    rows = {row["system"]: row for row in result["runs"][0]["rows"]}
    names = [f"loose block_size={k} tau={tau}" for k in (2, 4) for tau in (0, 1, 2)]
    others = ["g no_repeat_ngram_size=0", "g no_repeat_ngram_size=2"]
    assert list(rows) == ["fairseq beam 5", "fairseq beam 1", *names, *others]
    assert rows[names[5]]["sweep"] == {"block_size": "4", "tau": "2"}
    assert rows[names[5]]["base"] == "loose" and rows["fairseq beam 5"]["sweep"] == {}
    described = {system["name"]: system for system in result["systems"]}
    assert described[names[5]]["settings"]["block_size"] == 4
    assert described[names[5]]["settings"]["tau"] == 2.0
    assert rows[names[0]]["tok"] <= 3 and names[5] in printed
    assert result["warnings"] == []


@pytest.mark.parametrize(
    "words, message",
    [
        (["--sweep", "block_size"], "expected FLAG=VALUE"),
        (["--sweep", "block_size=5,"], "expected FLAG=VALUE"),
        (["--sweep", "b: block_size=5"], "no --system 'b'"),
        (["--sweep", "colour=5"], "no decoding flag 'colour'"),
        (["--sweep", "block_size=5", "--sweep", "block-size=6"], "swept already"),
        (["--sweep", "block_size=0"], "--system 'a block_size=0': --block-size 0"),
        (["--sweep", "block_size=5,7,5"], "a value stands there twice"),
        (["--sweep", "beam=4,0"], "--system 'a beam=0': --beam 0: must be 1 or more"),
        (
            ["--sweep", "a:block_size=5", "--system", "a block_size=5: --strategy iad"],
            "--system 'a block_size=5': --sweep makes a row of this name too",
        ),
        (["--sweep", "collapse_repeats=2"], "expected true or false"),
        (["--sweep", "block_size=5", "--system", "b: --strategy iad"], "2 systems; name one"),
    ],
)
def test_mistaken_sweeps_are_named(bench, words, message):
    with pytest.raises(ValueError) as caught:
        bench("--system", "a: --strategy iad", *words)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "words, flag",
    [
        (["--drafter-path", "none.pt"], "--drafter-path"),
        (["--drafter-path", "none.pt", "--system", "a: --strategy gad --drafter-path {d}"],
         "--drafter-path"),
        (["--strategy", "iad"], "--strategy"),
        (["--block-size", "3"], "--block-size"),
    ],
)  # fmt: skip
def test_a_shared_flag_that_no_system_uses_is_refused(bench, pair, words, flag):
    """Its file would not be opened, and the reader would take the figures for the flag's."""
    with pytest.raises(ValueError, match=f"^{flag} .*: no --system uses it"):
        bench(*(word.format(d=pair.d) for word in words))


def test_switches_are_swept_by_true_and_false(bench, pair):
    result, _ = bench(
        "--system", f"g: --strategy gad --drafter-path {pair.d}", "--limit", 1, "--warmup", 0,
        "--sweep", "collapse_repeats=true,false",
    )  # fmt: skip
    chosen = [system["settings"].get("collapse_repeats") for system in result["systems"][3:]]
    assert chosen == [True, False]


def results(name="gad", **row):
    """Results of two systems at two batch sizes, as small as they can be."""
    base = {
        "strategy": "gad", "bleu": 20.0, "ms_median": 3.0, "tokens_per_second": 90.0,
        "speed_beam5": 2.0, "tok": 3.0, "ms_mean": 3.0, "sentences_per_second": 9.0,
        "ms_by_section": dict.fromkeys(plots.SECTIONS, 1.0),
        "sweep": {}, "base": name,
    }  # fmt: skip
    rows = [dict(base, system="fairseq beam 5"), dict(base, system=name, **row)]
    part = {"rows": rows, "ms_by_batch": {row["system"]: [2.0, 3.0] for row in rows}}
    settings = {"source_lang": "s", "target_lang": "t", "subset": "test", "sentences": 2}
    return {
        "settings": settings,
        "provenance": {
            "command": "specdec-bench <data> & more",
            "threads": 1,
            "machine": {"device": "Abacus"},
        },
        "systems": [],
        "warnings": [],
        "quality": None,
        "memory": None,
        "runs": [dict(part, batch_size=1), dict(part, batch_size=8)],
    }


def test_the_page_escapes_text_and_needs_no_other_file():
    run = results('<b>&"x"')
    run["warnings"] = ["<script>alert(1)</script>"]
    text = page.page(run, [Picture("p", 'a "caption" <i>', b"\x89PNG")])
    assert "<script" not in text and "<b>" not in text and "<i>" not in text
    assert "&lt;b&gt;&amp;&quot;x&quot;" in text and "&lt;data&gt; &amp; more" in text
    assert 'src="data:image/png;base64,iVBORw=="' in text
    for outside in ("http:", "https:", "src='", "<link", "url("):
        assert outside not in text
    assert text.count("<h2>Batch size") == 2


def test_missing_figures_are_dashes():
    row = results()["runs"][0]["rows"][1]
    missing = dict(row, bleu=None, ms_by_section=None)
    _, cells, _ = tables.cells(tables.SPEED, [missing, row])
    assert cells[1] == tables.NOTHING
    _, cells, _ = tables.cells(tables.TIME, [missing, row])
    assert cells[1 : 1 + len(plots.SECTIONS)] == [tables.NOTHING] * len(plots.SECTIONS)


def test_columns_without_a_figure_are_left_out():
    (head, _) = tables.cells(tables.SPEED, [dict(results()["runs"][0]["rows"][1], bleu=None)])
    assert "Tok." in head and not {"BLEU", "nodes", "near-ties"} & set(head)


def test_a_busy_machine_is_spoken_of():
    run = results()
    run["provenance"]["threads"] = 2
    run["runs"][1]["load_average"] = [2.5, 1.0, 1.0]
    assert not any("busy" in line for line in tables.legend(run))
    run["runs"][0]["load_average"] = [7.0, 1.0, 1.0]
    assert any("busy (load average 7)" in line for line in tables.legend(run))


def test_a_missing_engine_is_named_under_the_tables():
    run = results()
    assert not any("native engine" in line for line in tables.legend(run))
    run["provenance"]["machine"]["missing_engine"] = "the native engine is missing: x"
    assert "WARNING: the native engine is missing: x." in tables.legend(run)


def test_bars_in_names_do_not_break_the_table():
    text = tables.markdown([tables.SYSTEM], [{"system": "a|b"}])
    assert text.splitlines()[-1] == r"| a\|b   |"


def test_the_fastest_system_with_identical_text_is_named():
    part = results()["runs"][0]
    stock, gad = part["rows"]
    stock.update(identical_percent=None, speed_beam1=0.5)
    gad.update(identical_percent=100.0, speed_beam1=3.14)
    wrong = dict(gad, system="gad++", identical_percent=99.9, speed_beam1=9.0)
    part["rows"].append(wrong)
    assert tables.conclusion(part).startswith(
        "batch 1: gad is fastest with identical text: 3.00 ms a sentence, 3.1x stock"
    )
    gad["speed_greedy"] = 1.02
    part["rows"] += [dict(gad, system=name, ms_mean=ms) for name, ms in (("b", 3.08), ("c", 3.1))]
    conclusion = tables.conclusion(part)
    assert (
        conclusion.startswith("batch 1: gad, b are, within 3%, fastest")
        and "greedy" not in conclusion
    )
    part["rows"] = [stock, wrong]
    assert "no system was faster" in tables.conclusion(part)


@needs_matplotlib
def test_pictures_are_titled_and_a_system_keeps_its_colour(monkeypatch):
    run, figures = results(), {}
    run["runs"][0]["rows"].insert(
        1, dict(run["runs"][0]["rows"][1], system="other", sweep={"k": 1})
    )
    monkeypatch.setattr(plots, "MOST", 2)  # "other" is left out of some pictures
    monkeypatch.setattr(
        plots,
        "picture",
        lambda run, name, caption, *panels: figures.update(
            {name: plots.figure_of(run, "What it shows, with more.", panels)}
        ),
    )
    plots.latency_and_throughput(run)
    plots.speed_by_batch(run)
    for figure in figures.values():
        colours = {line.get_label(): line.get_color() for line in figure.axes[0].lines}
        assert colours["gad"] == "C2" and "other" not in colours
        assert figure.get_suptitle() == "What it shows"
        assert figure.axes[0].get_title() == "s-t, test, 2 sentences; Abacus, 1 thread"
    speeds = {
        line.get_label(): line.get_ydata() for line in figures["speed_by_batch"].axes[0].lines
    }
    assert list(speeds["gad"]) == [2.0, 2.0], "over stock at the same batch size"


@needs_matplotlib
def test_every_picture_is_a_png():
    run = results("$weird_{")
    rows = run["runs"][0]["rows"]
    for value in ("5", "10"):
        for tau in ("0", "1", "inf"):
            sweep = {"block_size": value, "tau": tau}
            rows.append(dict(rows[1], system=f"s {value} {tau}", base="s", sweep=sweep))
    for value in ("fp32", "bf16"):
        sweep = {"drafter_dtype": value}
        rows.append(dict(rows[1], system=f"t {value}", base="t", sweep=sweep, tok=None, bleu=None))
    times = run["runs"][0]["ms_by_batch"]
    times.update((row["system"], [1.0, 2.5]) for row in rows[2:])
    run["runs"][1]["rows"] = rows
    pictures = {picture.name: picture for picture in plots.draw(run)}
    assert list(pictures) == [
        "latency_throughput", "speed_by_batch", "speed_up_distribution", "time_split",
        "sweep_1_block_size", "sweep_1_tau", "trade_off_1", "sweep_2",
    ]  # fmt: skip
    assert "(k)" in pictures["sweep_1_block_size"].caption
    for picture in pictures.values():
        assert picture.png[:8] == b"\x89PNG\r\n\x1a\n" and len(picture.png) > 5000


@needs_matplotlib
def test_plots_and_page_are_written(bench, pair, tmp_path):
    bench(
        "--system", "copy: --strategy iad", "--limit", 4, "--warmup", 0, "--batch-size", "1,2",
        "--plots", tmp_path / "p", "--html", tmp_path / "x.html", "--json", tmp_path / "x.json",
    )  # fmt: skip
    assert {path.name for path in (tmp_path / "p").iterdir()} == {
        "latency_throughput.png", "speed_by_batch.png", "speed_up_distribution.png",
        "time_split.png",
    }  # fmt: skip
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert text.count("data:image/png;base64,") == 4
    ms_by_batch = json.loads((tmp_path / "x.json").read_text())["runs"][0]["ms_by_batch"]
    assert len(ms_by_batch["copy"]) == 4 and all(
        0 < x and math.isfinite(x) for x in ms_by_batch["copy"]
    )


def test_pictures_without_matplotlib_are_refused_before_anything_is_loaded(bench, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *a: None if name == "matplotlib" else find_spec(name),
    )
    monkeypatch.setattr(builtins, "open", None)
    for flag in ("--plots", "--html"):
        with pytest.raises(ValueError, match=f"{flag}: needs matplotlib; install"):
            bench(flag, "x")
