"""Recipes as data: their parts agree with one another, the papers, the configs and the programs."""

import argparse
import itertools
import re
import shlex

import measure
import paper_table
import pytest
import recipe_config
import recipe_file
import runner
from recipe import Recipe, Settings, StepError, recipe_names

from fairseq_specdec.bench.systems import make_plans
from fairseq_specdec.decoding.strategies import OWN_FLAGS
from fairseq_specdec.io.flag_values import flag_of

RECIPES = {name: Recipe(name, {}) for name in recipe_names()}
MEASURED = [name for name, declared in RECIPES.items() if declared.systems()]
EVERYWHERE = {"fairseq beam 5", "fairseq beam 1", "greedy"}  # systems of every set


def rows_of(system):
    """The rows that specdec-bench makes of a system: one of each value of its sweeps."""
    words = measure.system_words(system.name, shlex.split(system.flags))
    sweeps = [word.partition(": ")[2].partition("=") for word in words[3::2]]
    values = [[f"{flag}={value}" for value in listed.split(",")] for flag, _, listed in sweeps]
    return [" ".join([system.name, *chosen]) for chosen in itertools.product(*values)]


def tables(declared):
    return [row for rows in paper_table.by_title(declared.file).values() for row in rows]


@pytest.mark.parametrize("name", MEASURED)
def test_models_name_configs_and_models_before_them(name):
    declared = RECIPES[name]
    known = {source.split for source in recipe_file.sources(declared.file, "pretrained")}
    stages = {"given", "heads", "start"}
    for step in declared.steps.values():
        stages |= {words[0] for action, words, _ in declared.actions(step)
                   if action == "benchmark.train"}  # fmt: skip
    for model in declared.models():
        assert model.name not in known and model.step in stages
        assert set(re.findall(r"{(\w+)}", model.overrides)) <= known
        known.add(model.name)
        if not model.config:
            continue
        assert model.corpus in ("raw", "distilled", "synthetic", "finetune")
        settings = recipe_config.read(model.config)
        for word in model.overrides.split():
            room, setting = word.split("=")[0].split(".")
            # hydra 1.0 overrides only what is there
            assert word.startswith("+") or setting in settings[room], word
    distils = any(model.corpus == "distilled" for model in declared.models())
    assert not distils or declared.settings["teacher"] in known


@pytest.mark.parametrize("name", MEASURED)
def test_systems_ask_for_models_that_are_trained(name):
    declared = RECIPES[name]
    models = {model.name for model in declared.models()}
    for system in declared.systems():
        assert {*system.needs, system.verifier} <= models
    sets = {system.set for system in declared.systems()}
    decoded = declared.settings.words("decode_sets")
    assert decoded and set(decoded) <= sets >= set(declared.settings.words("memory_sets"))


def test_rows_are_called_as_specdec_bench_calls_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (system,) = (s for s in RECIPES["xsum"].systems() if s.name == "bild aligned without rollback")
    for name in (system.verifier, *system.needs):
        (tmp_path / f"{name}.pt").touch()
    own = shlex.split(re.sub(r"{(\w+)}", r"\1.pt", system.flags))
    words = measure.system_words(system.name, own)
    shared = argparse.Namespace(beam=1, path=f"{system.verifier}.pt")
    made = [plan.name for plan in make_plans([words[1]], words[3::2], shared)]
    assert made == rows_of(system) and len(made) == 5


@pytest.mark.parametrize("name", MEASURED)
def test_rows_draft_as_the_papers_do_unless_they_are_called_planned(name):
    """Whole drafts in the verifier's format; what pays on this processor is a row of its own."""
    whole = {"draft_budget": "0", "draft_confidence": "0", "drafter_dtype": "same"}
    for system in RECIPES[name].systems():
        words = shlex.split(system.flags)
        strategy = words[words.index("--strategy") + 1]
        mine = {flag for flag in whole if strategy in OWN_FLAGS[flag]}
        if strategy == "bild":
            mine.clear()  # its drafts end by its own threshold, in the verifier's format
        if strategy == "sps" and "--sampling" in words:
            assert "--sampling-verification token" in system.flags, system
        for flag in mine:
            given = flag_of(flag) in words
            assert given is not system.name.endswith("planned"), system
            assert not given or words[words.index(flag_of(flag)) + 1] == whole[flag], system


@pytest.mark.parametrize("name", MEASURED)
def test_every_published_row_is_measured_or_listed_as_not(name):
    declared = RECIPES[name]
    systems = declared.systems()
    for row in tables(declared):
        if (row.set, row.system) == ("-", "-"):
            continue
        here = [s for s in systems if s.set == row.set]
        here = [s for s in here if "*" in (s.direction, row.direction) or s[0] == row.direction]
        assert here and row.system in {*EVERYWHERE, *sum(map(rows_of, here), [])}, row
        if any(key.startswith("text.") for key in row.figures):
            assert row.set in declared.settings.words("decode_sets"), row
        size = re.search(r"k = (\d+)", row.name)
        if size and row.system not in EVERYWHERE and "here" not in row.name:
            flags = "".join(s.flags for s in here if row.system in rows_of(s))
            assert re.search(rf"(k=|size |_){size[1]}\b", f"{row.system} {flags}"), row
        validated = ("Ge et al. Table 6", "Ge et al. Table 7", "Xia et al. Table 4")
        if "dev" in row.name or row.table in validated:
            assert here[0].split == "valid", row


def test_a_setting_comes_from_the_environment_or_a_table():
    given = {"WORK": "/w", "SRC": "", "PROFILE": "smoke", "DRAFTER": "", "note": "x"}
    given["GAD_FLAGS"] = "--tau 2"
    settings = Settings("comparison", given)
    assert settings["BIN"] == "/w/bin/ende"  # of a recipe that it includes
    assert settings["OUT"] == "/w/comparison"  # its own comes first
    assert settings["SRC"] == "en" and settings["DRAFTER"] == ""
    assert settings["SENTENCES"] == "10" and settings["HEAD_UPDATES"] == "10"
    assert list(settings.expand("a=$BIN/x $GAD_FLAGS 'b c'")) == [
        "a=/w/bin/ende/x", "--tau", "2", "b c",
    ]  # fmt: skip
    assert Settings("gec_conll14", {"note": "x"})["note"] != "x"  # the recipe's own
    only = Settings("ende_small", {})
    assert "HEAD_UPDATES" in only and "FROZEN_LR" in only and "TUNED_LR" not in only
    with pytest.raises(recipe_file.RecipeError, match="recipe.yaml: no setting 'x' for '--a .x'"):
        settings.fill("--a $x")
    with pytest.raises(StepError, match="SENTENCES: 'few' is no number"):
        Settings("comparison", {"SENTENCES": "few"}).number("SENTENCES")


def test_text_stays_as_it_is_written_and_an_entry_stands_for_each_value(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "models:\n  m_{k}_{way}:\n    for: {k: [1, 02], way: [no, 1e-7]}\n    step: $s {k} {m}\n"
    )
    assert [(model.name, model.step) for model in recipe_file.models(path)] == [
        (f"m_{k}_{way}", f"$s {k} {{m}}") for k in ("1", "02") for way in ("no", "1e-7")
    ]


SOURCE = "split: a, url: b, licence: c"
# What is wrong in a recipe.yaml, where, and what is said of it.
SLIPS = [
    ("titel: x", "recipe.yaml.titel: unknown key; there are title, include"),
    ("steps: [", "recipe.yaml: line 2: expected the node content"),
    ("settings: {A: 1, A: 2}", "line 1: two entries are called 'A'"),
    ("settings: {A: {defualt: 1}}", "settings.A.defualt: unknown key; there are default, smoke"),
    ("settings: {A: [1]}", "settings.A: expected a mapping of default, smoke"),
    ("models: {m: {config: x}}", "models.m: lacks step"),
    ("models: {m: {step: [x]}}", "models.m.step: expected one text"),
    ("sources: [{split: a, url: b}]", "sources.1: lacks licence"),
    (f"sources: [{{{SOURCE}, files: [a]}}]", "sources.1.files: expected a list of two"),
    ("systems: {s: {verifier: v, rows: {r: [a]}}}", "systems.s.rows.r: expected one text"),
    ("systems: {s: {verifier: v, rows: {'{k}': {for: {k: [1, 1]}, flags: a}}}}",
     "systems.s.rows: two entries are called '1'"),
    ("tables: {t: {figures: iter, rows: [[a, s/b, 1, 2]]}}", "tables.t.rows.*.1: expected [name"),
    ("tables: {t: {figures: iter, rows: [[a, b, 1]]}}", "'b' is no set/system"),
    ("tables: {t: {figures: iter, notes: {tok: x}, rows: [[a, s/b, 1]]}}",
     "tables.t.notes.tok: there is no column"),
    ("notes: {tok: x}", "tables.notes.tok: there is no column of this key"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "problem"), SLIPS)
def test_a_slip_is_named_with_file_and_key(tmp_path, text, problem):
    path = tmp_path / "recipe.yaml"
    path.write_text(text + "\n", encoding="utf-8")
    with pytest.raises(recipe_file.RecipeError) as caught:
        recipe_file.settings(*recipe_file.section(path, "settings"))
        recipe_file.models(path)
        recipe_file.sources(path)
        recipe_file.systems(path)
        paper_table.read(path)
    said = str(caught.value)
    assert said.startswith(str(path)) and problem in said and "\n" not in said


# A setting or an input that is wrong, and what the step says of it.
MISTAKES = [
    ("demo", "01_corpus", {"EN_FILE": "/nowhere"}, "EN_FILE"),
    ("demo", "07_pack", {}, "run the step that makes it first"),
    ("blockwise", "01_heads", {"DISTILLED": "/nowhere", "MODELS": "distilled/frozen_4"},
     "/nowhere/dict.en.txt"),
    ("blockwise", "01_heads", {"MODELS": "original/tuned_1"}, "MODELS: original/tuned_1"),
    ("blockwise", None, {"STEPS": "99_nothing"}, "no step 99_nothing; there are 01_heads"),
    ("comparison", "01_table", {"DRAFTER": "/nowhere.pt"}, "/nowhere.pt"),
    ("wmt14_ende", "01_prepare", {"TOKENISED": "/no"}, "/no/train.bpe.en, /no/train.bpe.de"),
    ("wmt14_ende", "01_prepare", {"SOURCES": "{}"}, "RAW or TOKENISED takes a copy of your own"),
    ("wmt14_ende", "02_train_teacher", {"MODELS": "teachr"}, "MODELS: teachr"),
    ("wmt14_ende", "02_train_teacher", {"GPUS": "0"}, "GPUS: 0 is no number from 1"),
    ("wmt14_ende", "02_train_teacher", {"PRECISION": "fp8"}, "PRECISION: fp8 is not one of empty"),
    ("iwslt17_deen", "07_table", {"PROFILE": "smoke", "TABLE_SETS": "bild"},
     "nothing to measure for bild: train its models first (MODELS)"),
    ("iwslt17_deen", None, {"CORPUS": "x"}, "CORPUS: x is not one of iwslt17, wmt14"),
    ("ende_small", "01_prepare", {"VERIFIER": "absent.pt"}, "absent.pt is missing: VERIFIER names"),
    ("gec_conll14", "01_prepare", {}, "LANG8: set it to the path of your copy"),
    ("gec_conll14", "01_prepare", {"LANG8": "/none"}, "neither /none nor /none.src exists"),
    ("gec_conll14", "01_prepare", {"SUBWORDS": "gpt2"}, "BART: set it to the path of your copy"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "step", "settings", "remedy"), MISTAKES)
def test_mistakes_are_named_with_their_remedy(
    monkeypatch, capsys, tmp_path, name, step, settings, remedy
):
    sources = tmp_path / "sources.yaml"  # of a file that cannot be fetched
    absent = (tmp_path / "absent.tgz").as_uri()
    sources.write_text(f"sources: [{{split: train, url: '{absent}', licence: free}}]\n")
    monkeypatch.setenv("STEPS", settings.get("STEPS", ""))
    given = {"WORK": tmp_path / "work", "DEVICE": "cpu", **settings}
    words = [f"{setting}={value}".format(sources) for setting, value in given.items()]
    assert runner.main([name, *filter(None, [step]), *words]) == 1
    assert remedy in capsys.readouterr().err
