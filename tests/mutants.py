"""Mutation testing: changes of the code that no test notices. ``make mutants`` runs it.

Each mutant has one small change (an operator, a number, an argument; mutmut makes them, messages
stay) and is run against the tests that pyproject.toml names for its module. A process imports these
and runs them once, so that toys are trained; each mutant is a fork of it. Survivors are printed.
What was killed is not run again while its function stays as it is: ``build/mutants.jsonl`` has the
results.
"""

import argparse
import ast
import difflib
import functools
import gc
import hashlib
import inspect
import itertools
import json
import os
import pathlib
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types
from typing import NamedTuple

import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Looking for exceptions in finalizers collects garbage twice, which takes longer than most tests.
PYTEST = ["-x", "-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:unraisableexception"]
PYTEST += ["--timeout=0"]  # by the clock: a process that was stopped for a while would fail


def mutants_of(source):
    """{mutated source: whether the change is inside a function or class} of a module."""
    import libcst as cst
    import libcst.matchers as m
    from libcst.metadata import MetadataWrapper, WhitespaceInclusivePositionProvider
    from mutmut.mutation.mutators import mutation_operators

    operators = [pair for pair in mutation_operators if pair[0] is not cst.BaseString]
    nothing = m.Assign(value=m.Name("None")) | m.AnnAssign(value=m.Name("None"))
    changes, depth = [], 0

    class Finder(cst.CSTVisitor):
        def on_visit(self, node):
            nonlocal depth
            depth += isinstance(node, (cst.FunctionDef, cst.ClassDef))
            # A message stays, and what is None and may be "" instead.
            if isinstance(node, (cst.Annotation, cst.Decorator, cst.Raise)):
                return False
            if m.matches(node, nothing):
                return False
            for kind, operator in operators:
                if isinstance(node, kind):
                    changes.extend((node, new, depth > 0) for new in operator(node))
            return True

        def on_leave(self, node):
            nonlocal depth
            depth -= isinstance(node, (cst.FunctionDef, cst.ClassDef))

    wrapper = MetadataWrapper(cst.parse_module(source))
    module = wrapper.module
    module.visit(Finder())
    places = wrapper.resolve(WhitespaceInclusivePositionProvider)
    lines = list(itertools.accumulate(map(len, source.splitlines(keepends=True)), initial=0))
    texts = {}
    for old, new, inside in changes:
        start, end = (lines[at.line - 1] + at.column for at in (places[old].start, places[old].end))
        texts[source[:start] + module.code_for_node(new) + source[end:]] = inside
    return {text: inside for text, inside in texts.items() if text != source}


def change(source, mutated):
    """``old -> new`` of the lines that differ."""
    lines = [x for x in difflib.ndiff(source.splitlines(), mutated.splitlines()) if x[0] in "-+"]
    return " -> ".join(" ".join(x[2:].strip() for x in lines if x[0] == sign) for sign in "-+")


def name_of(module, source, mutated):
    """What a result is kept under: the module, and the mutated function or statement. Changes of
    the code elsewhere keep it."""
    scope, text = place_of(mutated, first_change(source, mutated))
    return key(module, *scope, text or change(source, mutated))


def first_change(source, mutated):
    return next(n for n, (a, b) in enumerate(zip_lines(source, mutated), 1) if a != b)


def place_of(source, line):
    """(names of the classes around a line, and the function's; its text) of the innermost function
    or statement. Empty where the line lies between two."""
    scope, body = [], parsed(source).body
    while True:
        within = [node for node in body if node.lineno <= line <= node.end_lineno]
        if len(within) != 1:
            return scope, ""
        if isinstance(within[0], (ast.ClassDef, ast.FunctionDef)):
            scope = [*scope, within[0].name]
        if not isinstance(within[0], ast.ClassDef):
            return scope, ast.get_source_segment(source, within[0])
        body = within[0].body


@functools.lru_cache(2)
def parsed(source):
    return ast.parse(source)


def zip_lines(one, other):
    return itertools.zip_longest(one.splitlines(), other.splitlines())


def functions_of(value):
    """The function inside of decorators, properties and the like: a list of one or none."""
    value = getattr(value, "fget", None) or getattr(value, "__func__", value)
    value = inspect.unwrap(value) if callable(value) else value
    return [value] if isinstance(value, types.FunctionType) else []


def replace(old, new):
    """Give the functions of a module or class the code of a mutant's, wherever they are known."""
    for name, value in vars(new).items():
        present = vars(old).get(name)
        if isinstance(value, type) and isinstance(present, type) and value is not present:
            replace(present, value)
        if isinstance(old, type) and isinstance(present, (bool, int, float)):
            setattr(old, name, value)
        for one, other in zip(functions_of(present), functions_of(value)):
            one.__code__, one.__defaults__ = other.__code__, other.__defaults__
            one.__kwdefaults__ = other.__kwdefaults__


def set_constants(old, new):
    """Give a mutant's constants to the module and to those that imported them by their names."""
    for name, value in vars(new).items():
        before = vars(old).get(name)
        known = (type, types.FunctionType, types.ModuleType)
        if name.startswith("__") or isinstance(value, known) or repr(before) == repr(value):
            continue
        for module in list(sys.modules.values()):
            if name in vars(module) and vars(module)[name] is before:
                setattr(module, name, value)


def run_mutant(path, text, inside, arguments):
    """The exit status of the tests of a mutant, of which this process is a fork."""
    import pytest

    old = next(m for m in sys.modules.values() if getattr(m, "__file__", None) == str(path))
    new = types.ModuleType(old.__name__)
    new.__package__, new.__file__ = old.__package__, old.__file__
    try:
        exec(compile(text, str(old.__file__), "exec"), vars(new))
        replace(old, new)
        set_constants(old, new)
    except Exception:  # it registers something, say
        inside = None
    status = 0 if inside is None else pytest.main([*PYTEST, *arguments])
    if inside or status != 0:
        return status
    # What was computed from a constant when modules were imported needs a fresh Python.
    return subprocess.run([sys.executable, "-m", "pytest", *PYTEST, *arguments]).returncode


def forked(limit, function, *arguments):
    """Run a function in a fork; its result if that is a number below 256, None after the limit."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setsid()
            status = function(*arguments)
        finally:
            os._exit(status)
    done = (0, 0)
    for _ in range(int(100 * limit)):  # not the clock: both may be stopped for a while
        time.sleep(0.01)
        done = os.waitpid(pid, os.WNOHANG)
        if done[0]:
            break
    try:
        os.killpg(pid, signal.SIGKILL)  # with what it started
    except ProcessLookupError:
        pass
    return None if done == (0, 0) and os.waitpid(pid, 0) else done[1] >> 8 | done[1] & 127


def run_module(module, task, mutants, results):
    """Run mutants ({source: inside}) of a module, adding a line of JSON for each to a file."""
    import hypothesis
    import pytest

    # The first example that fails will do, and most faults show in a few.
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile(
        "mutants", phases=phases, max_examples=30, deadline=None, database=None
    )
    hypothesis.settings.load_profile("mutants")
    log = os.open(str(results.with_suffix(".log")), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1), os.dup2(log, 2)
    path = pathlib.Path(module).resolve()
    arguments, source = task.arguments, task.source
    if pytest.main([*PYTEST, *arguments]) != 0:  # torch is loaded, toys are trained
        return 1
    gc.freeze()  # so that no fork collects what was there before
    begin = time.monotonic()
    if forked(10**6, pytest.main, [*PYTEST, *arguments]) != 0:
        return 1  # every mutant would seem to be killed
    limit = 10 + 4 * (time.monotonic() - begin)
    for text, inside in mutants.items():
        path.write_text(text, encoding="utf-8")  # for commands that tests start
        # A fresh Python has to import everything.
        status = forked(limit if inside else limit + 40, run_mutant, path, text, inside, arguments)
        path.write_text(source, encoding="utf-8")
        result = {
            "key": name_of(module, source, text),
            "change": change(source, text),
            "survived": status == 0,
            "tests": task.tests,
        }
        with open(results, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(result) + "\n")
    return 0


def key(*texts):
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


class Task(NamedTuple):
    """A module.

    Attributes:
        arguments: pytest's, for the tests that judge it.
        source: its text.
        tests: a digest of the tests' texts, and of what [tool.mutants] says of them.
        mutants: {mutated source: whether the change is inside a function or class}.
    """

    arguments: list[str]
    source: str
    tests: str
    mutants: dict[str, bool]

    @classmethod
    def of(cls, module, words):
        """Of a path and what [tool.mutants] says of it."""
        arguments, source = shlex.split(words), (ROOT / module).read_text(encoding="utf-8")
        paths = [ROOT / word for word in arguments if word.endswith(".py")]
        tests = key(words, *(path.read_text(encoding="utf-8") for path in paths))
        return cls(arguments, source, tests, mutants_of(source))

    def last(self, module, text, results):
        """Whether a mutant survived; None where it is to be run: it was not yet, or survived other
        tests."""
        survived, tests = results.outcomes.get(name_of(module, self.source, text), (None, ""))
        return None if survived and tests != self.tests else survived


class Results:
    """What is known of mutants.

    Attributes:
        outcomes: {name of a mutant: (survived, digest of the tests)}.
    """

    def __init__(self, path):
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        each = map(json.loads, lines)
        self.outcomes = {one["key"]: (one["survived"], one["tests"]) for one in each}


def report(tasks, results):
    """(lines of a table by package, survivors)."""
    packages, survivors = {"all": [0] * 5}, []
    for module, task in tasks.items():
        ran = {text: task.last(module, text, results) for text in task.mutants}
        mine = [change(task.source, text) for text, survived in ran.items() if survived]
        survivors += [f"{module}: {one}" for one in mine]
        done = len(ran) - list(ran.values()).count(None)
        row = [len(ran), done, done - len(mine), len(mine), len(ran) - done]
        for name in (os.path.dirname(module), "all"):
            packages[name] = [sum(pair) for pair in zip(packages.get(name, [0] * 5), row)]
    lines = ["| package | mutants | run | killed | survived | to run |", "|---" * 6 + "|"]
    total = packages.pop("all")
    for name, row in [*packages.items(), ("all", total)]:
        lines.append(f"| `{name}` | " + " | ".join(map(str, row)) + " |")
    return lines, survivors


def run(tasks, drawn, results):
    """Run the drawn mutants ({(module, source)}) that no result is known of, in a copy of the tree.

    Raises:
        SystemExit: the tests of a module fail without a mutant.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder, "checkout")
        names = shutil.ignore_patterns(".*", "build", "__pycache__", "*.egg-info")
        shutil.copytree(ROOT, copy, ignore=names)
        os.chdir(copy)
        sys.path.insert(0, str(copy))
        os.environ.update(PYTHONPATH=str(copy), PYTHONDONTWRITEBYTECODE="1")
        for module, task in tasks.items():
            results_before = Results(results)
            todo = {
                text: inside
                for text, inside in task.mutants.items()
                if (module, text) in drawn and task.last(module, text, results_before) is None
            }
            if todo and forked(10**6, run_module, module, task, todo, results) != 0:
                sys.exit(f"{module}: its tests fail without a mutant; see {results.parent}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help="parts of their paths; all")
    parser.add_argument("--sample", type=int, help="so many mutants, drawn at random; all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "build" / "mutants.jsonl")
    options = parser.parse_args()
    results = options.results.resolve()
    results.parent.mkdir(parents=True, exist_ok=True)
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutants"]
    tasks = {module: Task.of(module, words) for module, words in table.items()}
    chosen = {x: task for x, task in tasks.items() if any(y in x for y in options.modules or [""])}
    if not chosen:
        parser.error(f"no module of [tool.mutants] has {' or '.join(options.modules)} in its path")
    every = [(module, text) for module, task in chosen.items() for text in task.mutants]
    count = len(every) if options.sample is None else min(options.sample, len(every))
    run(chosen, set(random.Random(options.seed).sample(every, count)), results)
    lines, survivors = report(chosen, Results(results))
    print("\n".join(lines + survivors))


if __name__ == "__main__":
    main()
