"""Recipes as data: tables agree with one another, the papers, the configs and the programs."""

import argparse
import itertools
import re
import shlex

import gec
import measure
import paper_table
import pytest
import recipe
import recipe_config
import tune
from ende_small import claims
from fetch import read_sources
from recipe import Recipe, Settings, StepError, read_table, recipe_names
from recipe_parts import REPO

from fairseq_specdec.bench.systems import make_plans
from fairseq_specdec.decoding.strategies import OWN_FLAGS
from fairseq_specdec.io.flag_values import flag_of

MEASURED = [name for name in recipe_names() if (REPO / f"scripts/{name}/systems.tsv").exists()]
EVERYWHERE = {"fairseq beam 5", "fairseq beam 1", "greedy"}  # systems of every set
CHECKSUM = re.compile(r"-|md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}")


def named(text):
    """The models that a text stands for."""
    return set(re.findall(r"{(\w+)}", text))


def starts(declared):
    """What the models of a recipe start from."""
    table = declared.folder / "pretrained.tsv"
    return {source.split for source in read_sources(table)} if table.exists() else set()


def rows_of(system):
    """The rows that specdec-bench makes of a system: one of each value of its sweeps."""
    words = measure.system_words(system.name, shlex.split(system.flags))
    sweeps = [word.partition(": ")[2].partition("=") for word in words[3::2]]
    values = [[f"{flag}={value}" for value in listed.split(",")] for flag, _, listed in sweeps]
    return [" ".join([system.name, *chosen]) for chosen in itertools.product(*values)]


def sets(declared):
    """The systems of each set that the recipe measures."""
    rows_by_set = {}
    for system in declared.systems():
        rows_by_set.setdefault(system.set, set(EVERYWHERE)).update(rows_of(system))
    return rows_by_set


@pytest.mark.parametrize("name", MEASURED)
def test_models_name_configs_and_models_before_them(name):
    declared = Recipe(name, {})
    known = starts(declared)
    stages = {"given", "heads", "start"}
    for step in declared.steps.values():
        stages |= {words[0] for action, words, _ in declared.actions(step)
                   if action == "benchmark.train"}  # fmt: skip
    for model in declared.models():
        assert model.name not in known and model.step in stages
        assert named(model.overrides) <= known
        known.add(model.name)
        if model.config == "-":
            continue
        assert model.corpus in ("raw", "distilled", "synthetic", "finetune")
        settings = recipe_config.read(REPO / "configs" / f"{model.config}.yaml")
        for word in model.overrides.split():
            room, setting = word.split("=")[0].split(".")
            # hydra 1.0 overrides only what is there
            assert word.startswith("+") or setting in settings[room], word
    assert declared.settings["teacher"] in known


@pytest.mark.parametrize("name", MEASURED)
def test_systems_ask_for_trained_models_and_flags_that_exist(name, tmp_path, monkeypatch):
    declared = Recipe(name, {})
    models = {model.name for model in declared.models()}
    monkeypatch.chdir(tmp_path)
    for model in models:
        (tmp_path / f"{model}.pt").touch()
    splits = {}
    for system in declared.systems():
        needs = set(system.needs.split()) - {"-"}
        assert needs | {system.verifier} <= models and named(system.flags) == needs
        shared = argparse.Namespace(beam=1, path=f"{system.verifier}.pt")
        own = shlex.split(re.sub(r"{(\w+)}", r"\1.pt", system.flags))
        words = measure.system_words(system.name, own)
        made = make_plans([words[1]], words[3::2], shared)
        assert [plan.name for plan in made] == rows_of(system)
        # A set is one run of specdec-bench.
        assert splits.setdefault(system.set, system[2:4]) == system[2:4]
    decoded = declared.settings.words("decode_sets")
    assert decoded and set(decoded) <= set(splits) >= set(declared.settings.words("memory_sets"))


@pytest.mark.parametrize("name", MEASURED)
def test_rows_draft_as_the_papers_do_unless_they_are_called_planned(name):
    """Whole drafts in the verifier's format; what pays on this processor is a row of its own."""
    whole = {"draft_budget": "0", "draft_confidence": "0", "drafter_dtype": "same"}
    for system in Recipe(name, {}).systems():
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


def choices(declared):
    table = declared.folder / "tune.tsv"
    return read_table(table, tune.Choice) if table.exists() else []


@pytest.mark.parametrize("name", MEASURED)
def test_choices_have_a_grid_and_a_goal(name):
    declared = Recipe(name, {})
    grids = sets(declared)
    for choice in choices(declared):
        names = sorted(grids[choice.set])
        made = [{"system": n, "bleu": 1.0, "speed_beam1": 1.0} for n in names]
        assert tune.choose(made, choice.systems, choice.goal)[1] > 4, choice


@pytest.mark.parametrize("name", MEASURED)
def test_every_published_row_is_measured_or_listed_as_not(name):
    declared = Recipe(name, {})
    for path in declared.folder.glob("paper*.tsv"):
        for row in paper_table.read(path)[0]:
            if (row.set, row.system) == ("-", "-"):
                continue
            if row.set == "tuned":
                mine = [c for c in choices(declared) if c.direction in ("*", row.direction)]
                assert row.system in {choice.name for choice in mine}, row
                continue
            here = [s for s in declared.systems() if s.set == row.set]
            here = [s for s in here if "*" in (s.direction, row.direction) or s[0] == row.direction]
            assert here and row.system in {*EVERYWHERE, *sum(map(rows_of, here), [])}, row
            if any(key.startswith("text.") for key in row.figures):
                assert row.set in declared.settings.words("decode_sets"), row
            size = re.search(r"k = (\d+)", row.name)
            if size and row.system not in EVERYWHERE and "here" not in row.name:
                flags = "".join(s.flags for s in here if row.system in rows_of(s))
                assert re.search(rf"(k=|size |_){size[1]}\b", f"{row.system} {flags}"), row
            tables = ("Ge et al. Table 6", "Ge et al. Table 7", "Xia et al. Table 4")
            if "dev" in row.name or row.table in tables:
                assert here[0].split == "valid", row


def test_claims_are_about_systems_of_one_set():
    declared = Recipe("ende_small", {})
    systems = sets(declared)
    lines = read_table(declared.folder / "claims.tsv", claims.Line, claims.make_line)
    for line in lines:
        assert set(line.systems) <= systems[line.set], line


def test_sources_have_address_terms_and_checksum():
    tables = [*REPO.glob("scripts/*/sources.tsv"), *REPO.glob("scripts/*/pretrained.tsv")]
    assert len(tables) == 10
    for table in tables:
        yours = table.parent.name.startswith("gec_")  # to be asked for, not fetched
        sources = read_table(table, gec.Source) if yours else read_sources(table)
        for source in sources:
            assert source.url.startswith("http" if yours else "https://")
            assert len(source.licence) > 3 and CHECKSUM.fullmatch(source.checksum)


def test_a_setting_comes_from_the_environment_or_a_table():
    given = {"WORK": "/w", "SRC": "", "PROFILE": "smoke", "DRAFTER": "", "note": "x"}
    given["GAD_FLAGS"] = "--tau 2"
    settings = Settings("comparison", given)
    assert settings["BIN"] == "/w/bin/ende"  # of a table that its table uses
    assert settings["OUT"] == "/w/comparison"  # its own table comes first
    assert settings["SRC"] == "en" and settings["DRAFTER"] == ""
    assert settings["SENTENCES"] == "10" and settings["HEAD_UPDATES"] == "10"
    assert list(settings.expand("a=$BIN/x $GAD_FLAGS 'b c'")) == [
        "a=/w/bin/ende/x", "--tau", "2", "b c",
    ]  # fmt: skip
    assert Settings("gec_conll14", {"note": "x"})["note"] != "x"  # the recipe's own
    with pytest.raises(StepError, match="SENTENCES: 'few' is no number"):
        Settings("comparison", {"SENTENCES": "few"}).number("SENTENCES")


def test_a_line_that_is_no_row_is_named(tmp_path):
    (tmp_path / "sources.tsv").write_text("train\thttps://a.org/x.tgz\t-\tfree\tone\n")
    with pytest.raises(ValueError, match="sources.tsv:1: 5 fields, expected 6 .*split, url"):
        read_sources(tmp_path / "sources.tsv")


def test_a_line_stands_for_every_value_of_its_sweeps():
    assert list(recipe.swept("k=[1|2] x[a|b]\t--k [1|2] [one] [x]")) == [
        "k=1 xa\t--k 1 [one] [x]", "k=1 xb\t--k 1 [one] [x]",
        "k=2 xa\t--k 2 [one] [x]", "k=2 xb\t--k 2 [one] [x]",
    ]  # fmt: skip


# A setting or an input that is wrong, and what the step says of it.
MISTAKES = [
    ("demo", "01_corpus", {"EN_FILE": "/nowhere"}, "EN_FILE"),
    ("demo", "07_pack", {}, "run the step that makes it first"),
    ("bild", "03_align", {}, "run the step that makes it first"),
    ("blockwise", "01_heads", {"DISTILLED": "/nowhere"}, "/nowhere/dict.en.txt"),
    ("blockwise", "01_heads", {"MODELS": "original/tuned_1"}, "MODELS: original/tuned_1"),
    ("blockwise", None, {"STEPS": "99_nothing"}, "no step 99_nothing; there are 01_heads"),
    ("comparison", "01_table", {"DRAFTER": "/nowhere.pt"}, "/nowhere.pt"),
    ("wmt14_ende", "01_prepare", {"TOKENISED": "/no"}, "/no/train.bpe.en, /no/train.bpe.de"),
    ("wmt14_ende", "01_prepare", {"SOURCES": "{}"}, "RAW or TOKENISED takes a copy of your own"),
    ("wmt14_ende", "02_train_teacher", {"MODELS": "teachr"}, "MODELS: teachr"),
    ("wmt14_ende", "02_train_teacher", {"GPUS": "0"}, "GPUS: 0 is no number from 1"),
    ("wmt14_ende", "02_train_teacher", {"PRECISION": "fp8"}, "PRECISION: fp8 is neither"),
    ("iwslt17_deen", "07_table", {"PROFILE": "smoke", "TABLE_SETS": "bild"},
     "nothing to measure for bild: train its models first (MODELS)"),
    ("ende_small", "01_prepare", {"VERIFIER": "absent.pt"}, "absent.pt is missing: VERIFIER names"),
    ("wikilarge", "01_prepare", {"TOKENISED": "/none"}, "TOKENISED: no file /none"),
    ("wikilarge", "01_prepare", {"SOURCES": "{}"}, "TOKENISED takes a copy"),
    ("gec_conll14", "01_prepare", {}, "LANG8: set it to the path of your copy"),
    ("gec_conll14", "01_prepare", {"LANG8": "/none"}, "neither /none nor /none.src exists"),
    ("gec_conll14", "01_prepare", {"SUBWORDS": "gpt2"}, "BART: set it to the path of your copy"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "step", "settings", "remedy"), MISTAKES)
def test_mistakes_are_named_with_their_remedy(dry_run, tmp_path, name, step, settings, remedy):
    sources = tmp_path / "sources.tsv"  # of a file that cannot be fetched
    sources.write_text(f"train\t{(tmp_path / 'absent.tgz').as_uri()}\t-\tfree\ta\tb\n")
    settings = {setting: value.format(sources) for setting, value in settings.items()}
    done = dry_run.run(name, step, check=False, **settings)
    assert done.returncode == 1
    assert remedy in done.stderr
    assert "Traceback" not in done.stderr
