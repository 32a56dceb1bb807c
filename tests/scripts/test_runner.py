"""scripts/run: what it lists, which mistakes it names, how settings reach a step."""

import inspect
import subprocess

import pytest
import recipe
import runner
from recipe import Recipe, Settings, StepError, recipe_names
from recipe_parts import REPO


def run(*words, **environment):
    """Run the command; the finished process."""
    command = [str(REPO / "scripts" / "run"), *words]
    settings = {"PATH": "/usr/bin:/bin", "PYTHON": runner.sys.executable, **environment}
    return subprocess.run(command, env=settings, capture_output=True, text=True)


def test_recipes_steps_and_settings_are_listed():
    assert "usage" not in run().stdout and run().returncode == 1
    listed = run("--list").stdout.splitlines()
    assert [line.split()[0] for line in listed] == recipe_names() and len(listed) == 15
    text = run("bild", "--help", PROFILE="smoke", WORK="/w").stdout
    assert text == run("bild", "--list", PROFILE="smoke", WORK="/w").stdout
    assert "\n  03_align       fine-tune the small model" in text
    assert "\n  SMALL_UPDATES=20\n" in text and "\n  OUT=/w/bild\n" in text
    assert "  PROFILE=full  [full|smoke]  smoke: minutes" in text


@pytest.mark.parametrize(
    ("words", "settings", "remedy"),
    [
        (["wmt15"], {}, "no recipe wmt15; there are bild, blockwise, cnndm"),
        (["bild", "06_x"], {}, "bild has no step 06_x; there are 01_small, 02_calibrate"),
        (["bild", "UPDATE=3"], {}, "bild has no setting UPDATE; there are OUT, VERIFIER_FLAGS"),
        (["bild", "--flag"], {}, "no option --flag; see scripts/run --help"),
        (["bild"], {"DEVICE": "tpu"}, "DEVICE: tpu is neither auto, cpu nor gpu"),
        (["ende_small", "--list"], {"DIRECTION": "de-en"}, "DIRECTION: de-en is not en-de"),
        (["bild"], {"PYTHON": "/nowhere"}, "PYTHON: /nowhere not found; activate"),
    ],
)
def test_mistakes_are_one_line_that_says_what_there_is(words, settings, remedy):
    done = run(*words, **settings)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("run: error: ") and remedy in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_setting_comes_from_the_command_line_the_environment_or_the_table(tmp_path):
    given = {"WORK": "/w", "SRC": "", "PROFILE": "smoke", "DRAFTER": "", "note": "x"}
    settings = Recipe("comparison", given).settings
    assert settings["BIN"] == "/w/bin/ende"  # of a table that its table uses
    assert settings["OUT"] == "/w/comparison"  # its own table comes first
    assert settings["SRC"] == "en" and settings["DRAFTER"] == ""
    assert settings["SENTENCES"] == "10" and settings["HEAD_UPDATES"] == "10"
    assert list(settings.expand("a=$BIN/x $GAD_FLAGS 'b c'")) == [
        "a=/w/bin/ende/x", "--draft-confidence", "0.05", "b c",
    ]  # fmt: skip
    assert Settings("gec_conll14", {"note": "x"})["note"] != "x"  # the recipe's own
    with pytest.raises(StepError, match="SENTENCES: 'few' is no number"):
        Settings("comparison", {"SENTENCES": "few"}).number("SENTENCES")
    done = run("wmt14_ende", "01_prepare", "PROFILE=smoke", f"WORK={tmp_path}", "SAMPLE=/none")
    assert done.returncode == 1 and "SAMPLE: no file /none.en" in done.stderr


def test_a_relative_work_folder_counts_from_where_the_command_is_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Recipe("demo", {"WORK": "w"}).settings["WORK"] == str(tmp_path / "w")


@pytest.mark.parametrize("name", recipe_names())
@pytest.mark.parametrize("profile", ["full", "smoke"])
def test_every_step_names_actions_and_parameters_that_exist(name, profile, monkeypatch):
    monkeypatch.syspath_prepend(str(recipe.SCRIPTS))
    declared = Recipe(name, {"PROFILE": profile})
    for row in declared.steps.values():
        assert row.what and len(row.what) < 150
        for function, words, named in declared.actions(row):
            inspect.signature(runner.find(function)).bind(None, *words, **named)
    for setting in declared.settings:
        assert "$" not in declared.settings[setting]


def test_a_line_that_is_no_row_is_named(tmp_path):
    (tmp_path / "steps.tsv").write_text("# title\n01_a\ta.b\n", encoding="utf-8")
    with pytest.raises(ValueError, match="steps.tsv:2: 2 fields, expected 3 .*name, actions, what"):
        recipe.read_table(tmp_path / "steps.tsv", recipe.StepRow)
