"""A recipe: its settings, its steps, and the models and systems that its YAML declares.

A setting in upper case is taken from the environment, where an empty value counts as none unless
``empty`` is ``allowed``; one in lower case belongs to the recipe. A default may use other settings
(``$NAME``). The first definition of a name counts, a recipe's own before those that it includes.
"""

import hashlib
import json
import os
import pathlib
import shlex
import string
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import recipe_file
from recipe_file import SCRIPTS, Setting

REPO = SCRIPTS.parent
sys.path.insert(0, str(REPO))  # the package, also where it is not installed
LIB = SCRIPTS / "lib"
GROUPS = LIB / "groups.yaml"


class StepError(Exception):
    """A step cannot go on. One line: the setting or the file, what is wrong, the remedy."""


class StepRow(NamedTuple):
    """A step: its actions, ``module.function`` and parameters, and what it does."""

    name: str
    actions: list[str]
    what: str


class Part(NamedTuple):
    """A part of a recipe's YAML: what a record says was read, rather than the whole file."""

    path: pathlib.Path
    name: str
    content: Any

    def __str__(self) -> str:
        return f"{self.path}#{self.name}"

    def digest(self) -> dict[str, Any]:
        """SHA-256 and size of what it says; its layout and comments do not count."""
        text = json.dumps(self.content).encode()
        return {"sha256": hashlib.sha256(text).hexdigest(), "bytes": len(text)}


def part(path: pathlib.Path, name: str) -> Part:
    return Part(path, name, recipe_file.section(path, name)[1])


class Settings(Mapping[str, str]):
    """The settings of a recipe: the environment's, or else its defaults."""

    def __init__(self, recipe: str, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._built_in = {"REPO": str(REPO), "RECIPE": str(SCRIPTS / recipe), "recipe": recipe}
        self._built_in["cores"] = environment.get("OMP_NUM_THREADS") or str(os.cpu_count())
        self._file = SCRIPTS / recipe / recipe_file.NAME
        self.defined: dict[str, Setting] = {}
        self._define(str(self._file), recipe_file.read(self._file), "all")
        for name in self.defined:
            self._check(name)

    def _check(self, name: str) -> None:
        choices = self.defined[name].choices
        if choices and self[name] not in choices:
            listed = ", ".join(dict.fromkeys(choice or "empty" for choice in choices))
            raise StepError(f"{name}: {self[name]} is not one of {listed}")

    def _define(self, where: str, declared: dict[str, Any], names: str) -> None:
        """Add the settings of a recipe or a group, and then those that it includes."""
        own = recipe_file.settings(f"{where}: settings", declared.get("settings"))
        for name, setting in own.items():
            if names == "all" or name in names.split():
                self.defined.setdefault(name, setting)
        where = f"{where}: include"
        for key, chosen in recipe_file.mapping(where, declared.get("include")).items():
            if key.startswith("$"):
                if names != "all":  # of another recipe, some of whose settings are taken
                    continue
                self._check(key[1:])
            included = self.fill(key)
            groups = (recipe_file.section(path, "groups") for path in (self._file, GROUPS))
            group = next((some[included] for _, some in groups if included in (some or {})), None)
            if group is None and included not in recipe_names():
                raise recipe_file.fail(where, f"there is no group and no recipe {included}")
            if group is not None:
                recipe_file.fields(f"{where} {included}", group, "", "include settings")
            else:
                group = recipe_file.read(SCRIPTS / included / recipe_file.NAME)
            self._define(f"{where} {included}", group, chosen if names == "all" else names)

    def given(self, name: str) -> bool:
        """Whether the environment sets it."""
        value = self._environment.get(name)
        return name.isupper() and value is not None and bool(value or self.defined[name].empty)

    def default(self, name: str) -> str:
        """What it is where the environment does not set it."""
        if name in self._built_in:
            return self._built_in[name]
        setting = self.defined[name]
        smoke = setting.smoke is not None and self["PROFILE"] == "smoke"
        return self.fill(setting.smoke if smoke else setting.default)

    def fill(self, text: str) -> str:
        """A text with settings, as shared sets of flags, instead of ``$NAME``."""
        try:
            return string.Template(text).substitute(self)
        except (KeyError, ValueError) as error:
            raise recipe_file.fail(str(self._file), f"no setting {error} for {text!r}") from error

    def __getitem__(self, name: str) -> str:
        given = name in self.defined and self.given(name)
        return self._environment[name] if given else self.default(name)

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
        """The words of a text, with settings instead of ``$NAME``; a word ``$SOME_FLAGS`` becomes
        all words of that setting."""
        for word in shlex.split(text):
            if word.startswith("$") and word.lower().endswith("flags"):
                yield from self.words(word[1:])
            else:
                yield self.fill(word)


class Recipe:
    """A folder of scripts that has a recipe.yaml."""

    def __init__(self, name: str, environment: Mapping[str, str], dry_run: bool = False) -> None:
        if name not in recipe_names():
            raise StepError(f"no recipe {name}; there are {', '.join(recipe_names())}")
        self.name, self.dry_run = name, dry_run
        self.folder = SCRIPTS / name
        self.file = self.folder / recipe_file.NAME
        self.title = recipe_file.text(*recipe_file.section(self.file, "title"))
        self.steps: dict[str, StepRow] = {row.name: row for row in step_rows(self.file)}
        self.environment = dict(environment)
        if self.environment.get("WORK"):
            self.environment["WORK"] = os.path.abspath(self.environment["WORK"])
        self.settings = Settings(name, self.environment)

    def models(self) -> list[recipe_file.Model]:
        rows = recipe_file.models(self.file)
        return [row._replace(overrides=self.settings.fill(row.overrides)) for row in rows]

    def systems(self) -> list[recipe_file.System]:
        rows = recipe_file.systems(self.file)
        return [row._replace(flags=self.settings.fill(row.flags)) for row in rows]

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
        for action in step.actions:
            function, *words = self.settings.expand(action)
            named = [word for word in words if word.split("=")[0].isidentifier() and "=" in word]
            plain = [word for word in words if word not in named]
            yield function, plain, dict(word.split("=", 1) for word in named)


def step_rows(path: pathlib.Path) -> list[StepRow]:
    """The steps of a recipe, its own or those of another that it names."""
    where, declared = recipe_file.section(path, "steps")
    if isinstance(declared, str):
        return step_rows(SCRIPTS / declared / path.name)
    made = []
    for name, step in recipe_file.mapping(where, declared).items():
        own = recipe_file.fields(f"{where}.{name}", step, "what run", "with flags")
        actions = recipe_file.texts(f"{where}.{name}.run", own["run"])
        given = recipe_file.mapping(f"{where}.{name}.with", own.get("with"))
        words = [f"{key}={value}" for key, value in given.items()]
        words += recipe_file.texts(f"{where}.{name}.flags", own.get("flags", []))
        actions = [" ".join([*actions, *words])] if words else actions
        made.append(StepRow(name, actions, own["what"]))
    return made


def recipe_names() -> list[str]:
    return sorted(path.parent.name for path in SCRIPTS.glob(f"*/{recipe_file.NAME}"))
