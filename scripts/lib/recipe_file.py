"""The YAML of a recipe, read strictly: values are text, an unknown or repeated key is named.

``recipe.yaml`` of a folder holds::

    title: one line
    include: {GROUP or RECIPE: all, or the names of its settings}
    settings: {NAME: default, or {default, smoke, choices, empty, what}}
    groups: {NAME: settings that ``include`` may name}
    steps: {NAME: {what, run, with, flags}}, or the recipe whose steps these are
    models: {NAME: [step, config, corpus, overrides], or these as a mapping or as a row with for}
    sources, pretrained: [{split, url, checksum, licence, files}]
    systems: {SET: {verifier, split, direction, rows: {SYSTEM: flags}}}, of each set greedy too
    tables: {TABLE: {figures, rows, notes}}, see paper_table.py
    notes: {FIGURE: text}, of every table

``for: {k: [10, 25]}`` in a source, a model, a system or a row of a table makes one of each value,
``{k}`` standing for it in all texts; a source may have a list of checksums, one of each value.
``lib/groups.yaml`` has the groups that recipes share.
"""

import functools
import itertools
import pathlib
import re
import urllib.parse
from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

try:
    import yaml
except ImportError:
    raise SystemExit("scripts/run needs PyYAML: pip install -e . installs all of it") from None

SCRIPTS = pathlib.Path(__file__).resolve().parents[1]
NAME = "recipe.yaml"
KEYS = ("title include settings groups steps models sources pretrained systems notes").split()
TABLES = re.compile(r"tables(_\w+)?")
UNKNOWN = "-"


class Loader(yaml.BaseLoader):
    """All scalars are text, as they are written; no mapping has a key twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        names = [key.value for key, _ in node.value]
        for name in names:
            if names.count(name) > 1:
                line = node.start_mark.line + 1
                raise ValueError(f"line {line}: two entries are called {name!r}")
        return super().construct_mapping(node, deep)


class Setting(NamedTuple):
    """A setting: its default (the first choice where there are some), that of PROFILE=smoke
    (``None``: the same), the values that there are (none: any), whether an empty value in the
    environment counts, and what it is."""

    default: str = ""
    smoke: str | None = None
    choices: tuple[str, ...] = ()
    empty: str = ""
    what: str = ""


class Source(NamedTuple):
    """A file to fetch, or to ask for.

    Attributes:
        split: train, valid, test or another part; a split's files are joined in their order.
        url: where the archive is.
        licence: who owns it, on what terms.
        checksum: ``algorithm:digits``, or ``-`` where none is published.
        files: file within the archive of each side, in the order of the pair.
    """

    split: str
    url: str
    licence: str
    checksum: str = UNKNOWN
    files: tuple[str, ...] = (UNKNOWN, UNKNOWN)

    @property
    def name(self) -> str:
        """A file name of its own: two addresses may end in the same one."""
        place = urllib.parse.urlsplit(self.url)
        path = (place.netloc + place.path + ("-" + place.query if place.query else "")).strip("/")
        return "".join(c if c.isalnum() or c in "._-" else "_" for c in path)


class Model(NamedTuple):
    """What is trained in which step, from which configuration; ``{model}`` in its overrides is
    that model's checkpoint."""

    name: str
    step: str
    config: str = ""
    corpus: str = ""
    overrides: str = ""


class System(NamedTuple):
    """What is measured. Systems of one set are measured in turns."""

    direction: str
    set: str
    split: str
    verifier: str
    name: str
    flags: str

    @property
    def needs(self) -> list[str]:
        """The models that its flags name."""
        return re.findall(r"{(\w+)}", self.flags)


class RecipeError(ValueError):
    """A recipe's YAML is wrong. One line: the file, the key, what is wrong."""


def fail(where: str, problem: str) -> RecipeError:
    return RecipeError(f"{where}: {problem}")


def fields(where: str, value: Any, required: str = "", optional: str = "") -> dict[str, Any]:
    """A mapping with these keys."""
    needed, known = required.split(), [*required.split(), *optional.split()]
    if not isinstance(value, dict):
        raise fail(where, f"expected a mapping of {', '.join(known)}")
    for key in value:
        if key not in known:
            raise fail(f"{where}.{key}", f"unknown key; there are {', '.join(known)}")
    for key in needed:
        if key not in value:
            raise fail(where, f"lacks {key}")
    return value


def mapping(where: str, value: Any) -> dict[str, Any]:
    """A mapping with keys of its own; of nothing, an empty one."""
    if value in ("", None):
        return {}
    if not isinstance(value, dict):
        raise fail(where, "expected a mapping")
    return value


def text(where: str, value: Any) -> str:
    if not isinstance(value, str):
        raise fail(where, "expected one text")
    return value


def texts(where: str, value: Any) -> list[str]:
    """A list of texts; one text is a list of it."""
    values = value if isinstance(value, list) else [value]
    return [text(where, each) for each in values]


def record(kind: type[NamedTuple], where: str, value: Any, **given: str) -> Any:
    """A NamedTuple of a mapping of texts, and where its default is a tuple, of lists of them."""
    defaults = kind._field_defaults
    needed = [key for key in kind._fields if key not in (*defaults, *given)]
    own = fields(where, value, " ".join(needed), " ".join(defaults))
    lists = {key for key, default in defaults.items() if isinstance(default, tuple)}
    made = {key: tuple(texts(f"{where}.{key}", each)) if key in lists else
            text(f"{where}.{key}", each) for key, each in own.items()}  # fmt: skip
    return kind(**given, **made)


def filled(value: Any, chosen: dict[str, str]) -> Any:
    """A value with texts instead of ``{name}``."""
    if isinstance(value, dict):
        return {key: filled(each, chosen) for key, each in value.items()}
    if isinstance(value, list):
        return [filled(each, chosen) for each in value]
    for name, chosen_text in chosen.items():
        value = value.replace(f"{{{name}}}", chosen_text)
    return value


def each_value(where: str, name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """An entry's name and value for all values that its key ``for`` lists; else as they are."""
    if not isinstance(value, dict) or "for" not in value:
        yield name, value
        return
    loops = mapping(f"{where}.for", value["for"])
    lists = [texts(f"{where}.for.{key}", listed) for key, listed in loops.items()]
    rest = {key: each for key, each in value.items() if key != "for"}
    for chosen in itertools.product(*lists):
        values = dict(zip(loops, chosen))
        yield filled(name, values), filled(rest, values)


def entries(where: str, value: Any) -> Iterator[tuple[str, str, Any]]:
    """Where an entry of a mapping is, its name and its value, with ``for`` unrolled."""
    seen = set()
    for key, entry in mapping(where, value).items():
        for name, one in each_value(f"{where}.{key}", key, entry):
            if name in seen:
                raise fail(where, f"two entries are called {name!r}")
            seen.add(name)
            yield f"{where}.{name}", name, one


def read(path: pathlib.Path) -> dict[str, Any]:
    """The sections of a file.

    Raises:
        RecipeError: it is no YAML, or a section has another name.
    """
    return _parsed(path, path.stat().st_mtime_ns)


@functools.cache
def _parsed(path: pathlib.Path, changed: int) -> dict[str, Any]:
    """What a file holds since it was ``changed``: it is read often."""
    try:
        with open(path, encoding="utf-8") as stream:
            data = yaml.load(stream, Loader)
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        what = f"line {mark.line + 1}: {error.problem}" if mark else error
        raise fail(str(path), str(what).replace("\n", " ")) from error
    known = [key for key in mapping(str(path), data) if TABLES.fullmatch(key)]
    return fields(str(path), mapping(str(path), data), "", " ".join([*KEYS, *known]))


def section(path: pathlib.Path, name: str) -> tuple[str, Any]:
    """Where a section is, for errors, and what it holds; ``None`` if it is not there."""
    return f"{path}: {name}", read(path).get(name)


def settings(where: str, value: Any) -> dict[str, Setting]:
    """The settings of a mapping."""
    made = {}
    for name, entry in mapping(where, value).items():
        own = {"default": entry} if isinstance(entry, str) else entry
        one: Setting = record(Setting, f"{where}.{name}", own)
        if one.choices and "default" not in own:
            one = one._replace(default=one.choices[0])
        made[name] = one
    return made


def sources(path: pathlib.Path, name: str = "sources") -> list[Source]:
    """The files that a section lists."""
    where, value = section(path, name)
    made = []
    for number, entry in enumerate(value or [], 1):
        for place, (_, one) in enumerate(each_value(f"{where}.{number}", name, entry)):
            if isinstance(one, dict) and isinstance(one.get("checksum"), list):
                one = {**one, "checksum": one["checksum"][place]}
            made.append(record(Source, f"{where}.{number}", one))
            if len(made[-1].files) != 2:
                raise fail(f"{where}.{number}.files", "expected a list of two: of each side, one")
    return made


def models(path: pathlib.Path) -> list[Model]:
    made = []
    for where, name, entry in entries(*section(path, "models")):
        row = entry["row"] if isinstance(entry, dict) and list(entry) == ["row"] else entry
        own = dict(zip(Model._fields[1:], row)) if isinstance(row, list) else row
        made.append(record(Model, where, own, name=name))
    return made


def systems(path: pathlib.Path) -> list[System]:
    """The systems of all sets, in their order."""
    made = []
    for where, name, entry in entries(*section(path, "systems")):
        own = fields(where, entry, "verifier", "split direction rows")
        direction, split = own.get("direction", "*"), own.get("split", "test")
        shared = (name, split, own["verifier"])
        rows = own.get("rows", {"greedy": "--strategy greedy"})
        for place, system, flags in entries(f"{where}.rows", rows):
            if isinstance(flags, dict) and set(flags) == {"flags"}:
                flags = flags["flags"]
            of_each = flags if isinstance(flags, dict) else {direction: flags}
            for one, words in of_each.items():
                made.append(System(one, *shared, system, text(place, words)))
    return made
