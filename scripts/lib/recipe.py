"""A recipe: a folder of tables that declares steps, settings, models and systems.

``steps.tsv`` starts with a comment that is the recipe's title. A row is a step: its name, its
actions (``module.function`` with parameters, ``; `` between actions), and what it does. A parameter
is ``name=value`` or a plain word; ``$NAME`` stands for a setting, and a word ``$SOME_FLAGS`` for
all words of it. The row ``use`` includes the steps of another recipe.

``settings.tsv`` has a row for each setting: its name, its default, its default under PROFILE=smoke
where that differs, and what it is. A default may use other settings (``$NAME``). A default
``a|b|c`` lists the only values there are, the first being the default. A name in upper case is
taken from the environment, where an empty value counts as none unless the name ends in ``?``; one
in lower case belongs to the recipe. The row ``use`` includes the settings of another recipe, or of
``lib/settings``; named after it, only those. The first definition of a name counts, a table's own
before those that it includes.
"""

import itertools
import os
import pathlib
import re
import shlex
import string
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

SCRIPTS = pathlib.Path(__file__).resolve().parents[1]
REPO = SCRIPTS.parent
sys.path.insert(0, str(REPO))  # the package, also where it is not installed
LIB = SCRIPTS / "lib"
SWEEP = re.compile(r"\[([^\[\]|]+(?:\|[^\[\]|]+)+)\]")


class StepError(Exception):
    """A step cannot go on. One line: the setting or the file, what is wrong, the remedy."""


class Setting(NamedTuple):
    """A row of settings.tsv."""

    name: str
    default: str
    smoke: str
    what: str


class StepRow(NamedTuple):
    """A row of steps.tsv."""

    name: str
    actions: str
    what: str


class ModelRow(NamedTuple):
    """A row of models.tsv: what is trained in which step, from which YAML of configs."""

    name: str
    step: str
    config: str
    corpus: str
    overrides: str


class SystemRow(NamedTuple):
    """A row of systems.tsv: what is measured. Systems of one set are measured in turns."""

    direction: str
    set: str
    split: str
    verifier: str
    name: str
    needs: str
    flags: str


def swept(line: str) -> Iterator[str]:
    """A line for each value of each ``[a|b|c]`` in it; what is written alike varies together."""
    groups = list(dict.fromkeys(SWEEP.findall(line)))
    for values in itertools.product(*(group.split("|") for group in groups)):
        text = line
        for group, value in zip(groups, values):
            text = text.replace(f"[{group}]", value)
        yield text


def read_table(path: pathlib.Path, kind: Any, make: Callable[..., Any] | None = None) -> list[Any]:
    """The rows of a table: one a line, a tab between fields; ``#`` begins a comment.

    A line with ``[a|b|c]`` stands for several, see :func:`swept`.

    Args:
        kind: NamedTuple of a row, which has as many fields.
        make: makes a row of its fields, or raises a ValueError (default: ``kind``).
    """
    made = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        for fields in (text.split("\t") for text in swept(line)):
            if len(fields) != len(kind._fields):
                raise ValueError(
                    f"{path}:{number}: {len(fields)} fields, expected {len(kind._fields)} with "
                    f"tabs between: {', '.join(kind._fields)}"
                )
            try:
                made.append((make or kind)(*fields))
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {error}") from error
    return made


def no_value(values: list[str]) -> str:
    """That it is none of these, in words: is neither a, b nor c."""
    *others, last = dict.fromkeys(value or "empty" for value in values)
    return f"is neither {', '.join(others)} nor {last}" if others else f"is not {last}"


class Settings(Mapping[str, str]):
    """The settings of a recipe: the environment's, or else the defaults of its tables."""

    def __init__(self, recipe: str, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._built_in = {"REPO": str(REPO), "RECIPE": str(SCRIPTS / recipe), "recipe": recipe}
        self._built_in["cores"] = environment.get("OMP_NUM_THREADS") or str(os.cpu_count())
        self.defined: dict[str, Setting] = {}
        self._optional = set()
        for setting in self._definitions(SCRIPTS / recipe / "settings.tsv", []):
            name = setting.name.rstrip("?")
            if name not in self.defined:
                self.defined[name] = setting._replace(name=name)
                self._optional.update({name} if setting.name.endswith("?") else set())
        for name in self.defined:
            self._check(name)

    def _definitions(self, path: pathlib.Path, names: list[str]) -> Iterator[Setting]:
        rows = read_table(path, Setting)
        for row in rows:
            if row.name != "use" and (not names or row.name.rstrip("?") in names):
                yield row
        for row in rows:
            if row.name == "use":
                table, _, choice = row.default.partition("$")
                if choice:
                    self._check(choice)
                    table += self[choice]
                places = (f"{table}/settings.tsv", f"{table}.tsv", f"lib/settings/{table}.tsv")
                (path, *_) = (path for path in map(SCRIPTS.joinpath, places) if path.exists())
                yield from self._definitions(path, row.smoke.split())

    def choices(self, name: str) -> list[str]:
        """The values that there are; empty where any will do."""
        default = self.defined[name].default
        return default.split("|") if "|" in default else []

    def _check(self, name: str) -> None:
        choices = self.choices(name)
        if choices and self[name] not in choices:
            raise StepError(f"{name}: {self[name]} {no_value(choices)}")

    def given(self, name: str) -> bool:
        """Whether the environment sets it."""
        value = self._environment.get(name)
        return name.isupper() and value is not None and bool(value or name in self._optional)

    def default(self, name: str) -> str:
        """What it is where the environment does not set it."""
        if name in self._built_in:
            return self._built_in[name]
        setting = self.defined[name]
        smoke = setting.smoke and self["PROFILE"] == "smoke"
        text = setting.smoke if smoke else setting.default.split("|")[0]
        return string.Template(text).substitute(self)

    def __getitem__(self, name: str) -> str:
        return self._environment[name] if self.given(name) else self.default(name)

    def __iter__(self) -> Iterator[str]:
        return iter({**self._built_in, **self.defined})

    def __len__(self) -> int:
        return len({**self._built_in, **self.defined})

    def words(self, name: str) -> list[str]:
        """The words of a setting that holds several."""
        return self[name].split()

    def number(self, name: str) -> int:
        """A setting that counts something."""
        if not self[name].isdigit():
            raise StepError(f"{name}: {self[name]!r} is no number from 0")
        return int(self[name])

    def expand(self, text: str) -> Iterator[str]:
        """The words of a parameter list, with settings instead of ``$NAME``."""
        for word in shlex.split(text):
            if word.startswith("$") and word.endswith("FLAGS"):
                yield from self.words(word[1:])
            else:
                yield string.Template(word).substitute(self)


class Recipe:
    """A folder of scripts that has a steps.tsv."""

    def __init__(self, name: str, environment: Mapping[str, str], dry_run: bool = False) -> None:
        if name not in recipe_names():
            raise StepError(f"no recipe {name}; there are {', '.join(recipe_names())}")
        self.name, self.dry_run = name, dry_run
        self.folder = SCRIPTS / name
        table = self.folder / "steps.tsv"
        self.title = table.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
        self.steps: dict[str, StepRow] = {row.name: row for row in step_rows(table)}
        self.environment = dict(environment)
        if self.environment.get("WORK"):
            self.environment["WORK"] = os.path.abspath(self.environment["WORK"])
        self.settings = Settings(name, self.environment)

    def models(self) -> list[ModelRow]:
        return read_table(self.folder / "models.tsv", ModelRow)

    def systems(self) -> list[SystemRow]:
        return read_table(self.folder / "systems.tsv", SystemRow)

    def chosen_steps(self, names: list[str]) -> list[StepRow]:
        """The steps that are named, or else those of STEPS, or else all."""
        names = names or self.settings.words("STEPS") or list(self.steps)
        for name in names:
            if name not in self.steps:
                raise StepError(
                    f"{self.name} has no step {name}; there are {', '.join(self.steps)}"
                )
        return [self.steps[name] for name in names]

    def actions(self, step: StepRow) -> Iterator[tuple[str, list[str], dict[str, str]]]:
        """``module.function``, plain words and ``name=value`` parameters of each action."""
        for action in step.actions.split("; "):
            function, *words = self.settings.expand(action)
            named = [word for word in words if word.split("=")[0].isidentifier() and "=" in word]
            plain = [word for word in words if word not in named]
            yield function, plain, dict(word.split("=", 1) for word in named)


def step_rows(table: pathlib.Path) -> list[StepRow]:
    """The rows of a steps.tsv; ``use RECIPE`` stands for those of another one."""
    made = []
    for row in read_table(table, StepRow):
        other = SCRIPTS / row.actions / table.name
        made += step_rows(other) if row.name == "use" else [row]
    return made


def recipe_names() -> list[str]:
    return sorted(path.parent.name for path in SCRIPTS.glob("*/steps.tsv"))
