"""scripts/run: what it lists, which mistakes it names, how settings reach a step."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
import runner
import step
from fairseq import options
from recipe import Recipe, recipe_names
from recipe_parts import REPO

from fairseq_specdec.bench import session
from fairseq_specdec.decoding import builder


def run(*words, **environment):
    """Run the command; the finished process."""
    command = [str(REPO / "scripts" / "run"), *words]
    settings = {"PATH": "/usr/bin:/bin", "PYTHON": sys.executable, **environment}
    return subprocess.run(command, env=settings, capture_output=True, text=True)


def test_recipes_steps_and_settings_are_listed():
    assert "usage" not in run().stdout and run().returncode == 1
    listed = run("--list").stdout.splitlines()
    assert [line.split()[0] for line in listed] == recipe_names() and len(listed) == 16
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
        (["bild"], {"DEVICE": "tpu"}, "DEVICE: tpu is not one of auto, cpu, gpu"),
        (["ende_small", "--list"], {"DIRECTION": "de-en"}, "DIRECTION: de-en is not one of en-de"),
        (["--table", "Xia", "99"], {}, "--table: no recipe makes 'Xia 99'; see docs/recipes.md"),
    ],
)
def test_mistakes_are_one_line_that_lists_what_there_is(
    words, settings, remedy, monkeypatch, capsys
):
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert runner.main(words) == 1
    out, said = capsys.readouterr()
    assert out == "" and said.startswith("run: error: ") and remedy in said
    assert said.count("\n") == 1


def test_a_python_that_is_not_there_is_named():
    done = run("bild", PYTHON="/nowhere")
    assert done.returncode == 1 and done.stderr.startswith("run: error: PYTHON: /nowhere not found")


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        ("Ge Table 6", ["Ge et al. Table 6: scripts/run wmt14_ende", "  blocks: fairseq beam 5,"]),
        ("Stern 2", ["Stern et al. Table 2: scripts/run superresolution"]),
        ("Kim tables 1", ["Kim et al. Table 1: scripts/run xsum", "WMT 2014: scripts/run iwslt"]),
        ("Xia 12", ["Xia et al. Tables 12 and 13: scripts/run wmt14_ende"]),
    ],
)
def test_a_table_is_found_by_author_and_number(query, lines):
    text = runner.find_table(query)
    assert all(line in text for line in lines) and "scripts/run demo" not in text


@pytest.mark.parametrize("profile", ["full", "smoke"])
@pytest.mark.parametrize("name", recipe_names())
def test_a_dry_run_prints_every_command_and_does_nothing(
    name, profile, tmp_path, monkeypatch, capsys
):
    def refuse(*words, **named):
        raise AssertionError(f"run or written: {words}")

    for module, function in ((subprocess, "run"), (os, "mkdir"), (os, "replace"), (os, "rename")):
        monkeypatch.setattr(module, function, refuse)
    monkeypatch.setenv("DEVICE", "cpu")
    words = [name, "--dry-run", f"WORK={tmp_path / 'work'}", f"PROFILE={profile}"]
    assert runner.main(words) == 0
    commands, steps = capsys.readouterr()
    assert all(f"== {declared}\n" in steps for declared in Recipe(name, {}).steps)
    assert len(commands.splitlines()) > 5 and not (tmp_path / "work").exists()
    # Only calls of functions that are there, and programs.
    for line in commands.splitlines():
        function = line.split()[0]
        if "." in function and "/" not in function:
            assert callable(step.find(function))


def shape_of(words):
    """A command without folders, languages and numbers: what decides whether flags fit."""
    plain = (re.sub(r"(\$WORK|/)\S*", "PATH", word) for word in words)
    return tuple(re.sub(r"\b\d[\d.]*\b", "N", word) for word in plain if len(word) > 2)


def ends_of_sweeps(words):
    """A command whose sweeps have their first and last value only."""
    return [re.sub(r"(: \w+=[^,]+,)\S+,", r"\1", word) for word in words]


SHAPES = set()  # that were checked, of whatever recipe


@pytest.mark.parametrize("name", recipe_names())
def test_every_command_that_decodes_takes_its_flags(name, printed, tmp_path, monkeypatch):
    """No recipe ends after its training for a flag that a system refuses."""
    monkeypatch.chdir(tmp_path)
    settings = Recipe(name, {}).settings
    given = {"MODELS": "all"} if "teacher" in settings else {}
    if "SEPARATE_DRAFTER" in settings:
        given = {"DRAFTER": tmp_path / "a.pt", "SEPARATE_DRAFTER": tmp_path / "a.pt"}
        (tmp_path / "a.pt").touch()
    commands = printed(name, **given)
    for setting in {"DIRECTION", "CORPUS"} & set(settings.defined):
        for value in settings.defined[setting].choices[1:]:
            commands += printed(name, **given, **{setting: value})
    commands = [each for each in commands if each[0] in ("specdec-bench", "fairseq-generate")]
    for words in {shape_of(words): words for words in commands}.values():
        if shape_of(words) in SHAPES:
            continue
        for path in map(pathlib.Path, re.findall(r"\$WORK[^\s'\"]*", " ".join(words))):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch() if path.suffix else path.mkdir(exist_ok=True)
        if words[0] == "specdec-bench":
            session.read(ends_of_sweeps(words[1:]))
        else:
            own = words[1 : words.index(">")]
            args = options.parse_args_and_arch(options.get_generation_parser(), own)
            if hasattr(args, "strategy"):
                builder.check_settings(args)
                builder.check_generation_flags(args, args.strategy)
        SHAPES.add(shape_of(words))
    assert commands or name in ("bild", "blockwise", "demo")
