"""Run the steps of a recipe. To resume, rerun the command.

  scripts/run --list                    the recipes
  scripts/run RECIPE --help             its steps, its settings and their defaults (or --list)
  scripts/run RECIPE                    every step
  scripts/run RECIPE STEP... NAME=VALUE some steps, with a setting
  scripts/run RECIPE --dry-run          prints every command, and runs none

Settings come from the environment too: PROFILE=smoke scripts/run RECIPE takes minutes and shows
that every step runs. STEPS names the steps to run.
"""

import logging
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence

from recipe import REPO, SCRIPTS, Recipe, StepError, recipe_names
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
        choices = "|".join(filter(None, dict.fromkeys(settings.choices(name))))
        notes = [f"[{choices}]"] * bool(choices) + [settings.defined[name].what]
        lines.append("  ".join(["", f"{name}={value}", *filter(None, notes)]))
    return "\n".join(lines)


def list_recipes(environment: Mapping[str, str]) -> str:
    """Every recipe, a line each."""
    recipes = [Recipe(name, environment) for name in recipe_names()]
    width = max(len(recipe.name) for recipe in recipes)
    return "\n".join(f"{recipe.name:{width}}  {recipe.title}" for recipe in recipes)


def split_words(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Plain words, and assignments by name."""
    matches = [ASSIGNMENT.fullmatch(word) for word in words]
    plain = [word for word, match in zip(words, matches) if not match]
    return plain, {match.group(1): match.group(2) for match in matches if match}


def show(text: str) -> None:
    """Print it; end quietly where the reader, as head, has seen enough."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    print(text)


def run(arguments: Sequence[str]) -> int:
    dry_run = "--dry-run" in arguments
    wants = {word for word in arguments if word in ("-h", "--help", "--list")}
    plain = [word for word in arguments if word not in {*wants, "--dry-run"}]
    words, assigned = split_words(plain)
    options = [word for word in words if word.startswith("-")]
    if options:
        raise StepError(f"run: error: no option {options[0]}; see scripts/run --help")
    if not words:
        show(list_recipes({}) if "--list" in wants else (__doc__ or "").strip())
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
    sys.path[:0] = [str(SCRIPTS), str(SCRIPTS / "demo")]
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        return run(arguments)
    except StepError as error:
        text = str(error)
        print(text if text.startswith(("[", "run: ")) else f"run: error: {text}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    os.environ.setdefault("PYTHON", sys.executable)
    sys.exit(main(sys.argv[1:]))
