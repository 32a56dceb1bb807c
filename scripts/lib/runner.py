"""Run the steps of a recipe. To resume, rerun the command.

  scripts/run --list                    the recipes
  scripts/run RECIPE --help             its steps, its settings and their defaults (or --list)
  scripts/run RECIPE                    every step
  scripts/run RECIPE STEP... NAME=VALUE some steps, with a setting
  scripts/run RECIPE --dry-run          prints every command, and runs none
  scripts/run --table "Ge 5"            who makes a paper's table: recipe, sets and systems
  scripts/run --config mt_verifier_base a model's hyper-parameters, for fairseq-hydra-train

Settings come from the environment too: PROFILE=smoke scripts/run RECIPE takes minutes and shows
that every step runs. STEPS names the steps to run.
"""

import logging
import os
import re
import signal
import sys
from collections.abc import Sequence

import recipe_config
from recipe import REPO, SCRIPTS, Recipe, StepError, recipe_names
from recipe_file import RecipeError
from step import run_steps

ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


def describe(recipe: Recipe) -> str:
    """Steps and settings, a line each."""
    lines = [f"{recipe.name}: {recipe.title}", "", "steps:"]
    width = max(map(len, recipe.steps))
    lines += [f"  {step.name:{width}}  {step.what}" for step in recipe.steps.values()]
    lines += ["", "settings, with their defaults:"]
    settings = recipe.settings
    for name in filter(str.isupper, settings.defined):
        value = settings.default(name).replace(str(REPO) + os.sep, "")
        choices = "|".join(filter(None, dict.fromkeys(settings.defined[name].choices)))
        notes = [f"[{choices}]"] * bool(choices) + [settings.defined[name].what]
        lines.append("  ".join(["", f"{name}={value}", *filter(None, notes)]))
    return "\n".join(lines)


def list_recipes() -> str:
    """Every recipe, a line each."""
    recipes = [Recipe(name, {}) for name in recipe_names()]
    width = max(len(recipe.name) for recipe in recipes)
    return "\n".join(f"{recipe.name:{width}}  {recipe.title}" for recipe in recipes)


def words_of(title: str) -> set[str]:
    """The words and numbers that name a table; not what is in brackets."""
    plain = re.sub(r"\(.*", "", title).lower()
    return {re.sub(r"^(table|figure)s$", r"\1", word) for word in re.findall(r"[\w.]*\w", plain)}


def find_table(query: str) -> str:
    """The recipes that make the tables whose titles have all words of a query, and by what."""
    import paper_table

    lines: list[str] = []
    for name in recipe_names():
        declared = Recipe(name, {})
        for title, rows in paper_table.by_title(declared.file).items():
            if words_of(query) and words_of(query) <= words_of(title):
                groups = dict.fromkeys(row.set for row in rows if row.set != paper_table.NOTHING)
                lines += [f"{title}: scripts/run {name}"]
                for group in groups:
                    names = dict.fromkeys(row.system for row in rows if row.set == group)
                    lines += [f"  {group}: {', '.join(names)}"]
    if not lines:
        raise StepError(f"--table: no recipe makes {query!r}; see docs/recipes.md")
    return "\n".join(lines)


def show(text: str) -> None:
    """Print it; end quietly where the reader, as head, has seen enough."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    print(text)


def run(arguments: Sequence[str]) -> int:
    dry_run = "--dry-run" in arguments
    wants = {word for word in arguments if word in ("-h", "--help", "--list")}
    if arguments[:1] == ["--table"]:
        show(find_table(" ".join(arguments[1:])))
        return 0
    if arguments[:1] == ["--config"]:
        show(recipe_config.text(recipe_config.read(" ".join(arguments[1:]))))
        return 0
    plain = [word for word in arguments if word not in {*wants, "--dry-run"}]
    assigned = dict(match.groups() for match in map(ASSIGNMENT.fullmatch, plain) if match)
    words = [word for word in plain if not ASSIGNMENT.fullmatch(word)]
    options = [word for word in words if word.startswith("-")]
    if options:
        raise StepError(f"run: error: no option {options[0]}; see scripts/run --help")
    if not words:
        show(list_recipes() if "--list" in wants else (__doc__ or "").strip())
        return 0 if wants else 1
    recipe = Recipe(words[0], {**os.environ, **assigned}, dry_run)
    known = [name for name in recipe.settings.defined if name.isupper()]
    unknown = [name for name in assigned if name not in known]
    if unknown:
        raise StepError(f"{recipe.name} has no setting {unknown[0]}; there are {', '.join(known)}")
    if wants:
        show(describe(recipe))
    else:
        run_steps(recipe, words[1:])
    return 0


def main(arguments: Sequence[str]) -> int:
    sys.path.insert(0, str(SCRIPTS))
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        return run(arguments)
    except (StepError, RecipeError, ModuleNotFoundError) as error:
        text = str(error)
        if isinstance(error, ModuleNotFoundError):
            text += ": activate the environment of fairseq_specdec, or set PYTHON"
        print(text if text.startswith(("[", "run: ")) else f"run: error: {text}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    os.environ.setdefault("PYTHON", sys.executable)
    sys.exit(main(sys.argv[1:]))
