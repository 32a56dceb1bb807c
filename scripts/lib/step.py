"""A step of a recipe while it runs: its log, its commands, and the record that it is done."""

import importlib
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
from typing import Any, Callable, Iterable, List, Mapping, Optional, Sequence

import records
from recipe import LIB, REPO, SCRIPTS, Recipe, StepError

USER_DIR = str(REPO / "fairseq_specdec")


class Step:
    """What the actions of one step work with.

    Attributes:
        recipe: that the step belongs to.
        name: of the step.
        settings: of the recipe.
        commands: that were run so far, for the record.
        environment: of the commands.
    """

    def __init__(self, recipe: Recipe, name: str) -> None:
        self.recipe, self.name, self.settings = recipe, name, recipe.settings
        self.python = recipe.environment.get("PYTHON") or sys.executable
        self.commands: List[str] = []
        work = self.path("WORK")
        work.mkdir(parents=True, exist_ok=True)
        # Folders of this machine, which the records write as $NAME.
        self.names = [("WORK", str(work)), ("REPO", str(REPO)), ("PYTHON", self.python)]
        before = recipe.environment.get("PYTHONPATH")
        paths = [str(REPO), str(SCRIPTS / "demo"), str(LIB), *([before] if before else [])]
        self.environment = dict(
            recipe.environment,
            PYTHONPATH=os.pathsep.join(paths),
            # The fairseq commands lie beside the interpreter, also where no environment is active.
            PATH=os.path.dirname(self.python) + os.pathsep + recipe.environment.get("PATH", ""),
        )

    def __getitem__(self, name: str) -> str:
        """A setting."""
        return self.settings[name]

    def path(self, name: str) -> pathlib.Path:
        """A setting that names a file or a folder."""
        return pathlib.Path(self.settings[name])

    def log(self, text: str) -> None:
        """Say it on stderr."""
        print(f"[{self.name}] {text}", file=sys.stderr, flush=True)

    def need(self, *tools: str) -> None:
        """Fail now if one of these commands is not installed."""
        for tool in tools:
            if not shutil.which(tool, path=self.environment["PATH"]):
                raise StepError(
                    f"{tool} not found: run 'pip install -e {REPO}' in the environment of "
                    f"{self.python}"
                )

    def run(
        self,
        *command: Any,
        log: Optional[pathlib.Path] = None,
        out: Optional[pathlib.Path] = None,
        mode: str = "a",
        failure: Optional[str] = None,
    ) -> None:
        """Run a command, and remember it for the record.

        Args:
            command: its words.
            log: file for its stderr, and for its stdout without ``out``.
            out: file for its stdout.
            mode: of ``log``: ``a`` keeps what earlier runs wrote there, ``w`` does not.
            failure: what to say if it fails; by default, to see the log.

        Raises:
            StepError: its exit status is not 0.
        """
        words = [str(word) for word in command]
        self.commands.append(" ".join(map(shlex.quote, words)) + (f" > {out}" if out else ""))
        stdout = open(out, "wb") if out else None
        stderr = open(log, f"{mode}b") if log else None
        try:
            streams = {"stdout": stdout or stderr, "stderr": stderr}
            done = subprocess.run(words, env=self.environment, **streams)
        finally:
            for stream in filter(None, (stdout, stderr)):
                stream.close()
        if done.returncode:
            name = pathlib.Path(words[1] if words[0] == self.python else words[0]).name
            raise StepError(failure or f"{name} failed: see {log or 'above'}")

    def program(self, name: str, *words: Any, failure: Optional[str] = None) -> None:
        """Run a program of scripts/lib or ``corpus``, whose own message says what is wrong."""
        failure = failure or f"{name} failed: see above"
        self.run(self.python, LIB / "program.py", name, *words, failure=failure)

    def produce(self, path: pathlib.Path, *command: Any, **options: Any) -> None:
        """Unless the file exists, run a command with its stdout going there."""
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        self.run(*command, out=partial, **options)
        partial.replace(path)

    def finished(self, record: pathlib.Path, inputs: Iterable[Any]) -> bool:
        """Whether a record says that this was done with these inputs.

        Raises:
            ValueError: an input is missing, or has changed since; with the remedy.
        """
        done = records.check(record, list(map(str, inputs)), self.names)
        if done:
            self.log(f"done before: {record}")
        return done

    def record(self, path: pathlib.Path, inputs: Iterable[Any], *outputs: Any) -> None:
        """Write how these outputs came about, which marks the work as done."""
        records.write(
            path,
            step=self.name,
            commands=self.commands,
            notes={"seed": self["SEED"], "threads": self["THREADS"]},
            inputs=list(map(str, inputs)),
            outputs=list(map(str, outputs)),
            names=self.names,
        )
        self.log(f"wrote {path}")


def fresh(path: pathlib.Path) -> pathlib.Path:
    """A folder's partial name, with nothing there yet."""
    partial = path.with_name(path.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    return partial


def publish(partial: pathlib.Path, path: pathlib.Path) -> None:
    """Put a folder that is complete in the place of an earlier one."""
    shutil.rmtree(path, ignore_errors=True)
    partial.rename(path)


def flags(own: Iterable[Any], **defaults: Any) -> List[str]:
    """``own``, then ``--name value`` of each default whose flag it does not give."""
    words = [str(word) for word in own]
    given = set(words)
    for name, value in defaults.items():
        flag = "--" + name.replace("_", "-")
        if flag not in given:
            words += [flag, str(value)]
    return words


def find(function: str) -> Callable[..., Any]:
    """``module.function``, of lib, or of a recipe as ``recipe.module.function``."""
    module, _, name = function.rpartition(".")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def run_steps(recipe: Recipe, names: Sequence[str] = ()) -> None:
    """Run the steps that are named, or those that STEPS names, or all."""
    for row in recipe.chosen_steps(list(names)):
        print(f"== {row.name}", file=sys.stderr, flush=True)
        step = Step(recipe, row.name)
        try:
            for function, words, named in recipe.actions(row):
                find(function)(step, *words, **named)
        except (StepError, OSError, ValueError) as error:
            raise StepError(f"[{row.name}] error: {error}") from error


def run_recipe(name: str, environment: Mapping[str, str], *steps: str) -> None:
    """Run steps of a recipe (none named: as its settings say) in this environment."""
    run_steps(Recipe(name, environment), steps)
