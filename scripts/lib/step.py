"""A step of a recipe while it runs: its log, its commands, and the record that it is done."""

import contextlib
import importlib
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import records
from recipe import LIB, REPO, Recipe, StepError

USER_DIR = str(REPO / "fairseq_specdec")


class Step:
    """What the actions of one step work with.

    Attributes:
        commands: that were run so far, for the record.
        environment: of the commands.
        dry: whether commands are printed, and nothing is run, made or written.
    """

    def __init__(self, recipe: Recipe, name: str) -> None:
        self.recipe, self.name, self.settings = recipe, name, recipe.settings
        self.dry = recipe.dry_run
        self.python = recipe.environment.get("PYTHON") or sys.executable
        self.commands: list[str] = []
        work = self.make(self.path("WORK"))
        # Folders of this machine, which the records write as $NAME.
        self.names = [("WORK", str(work)), ("REPO", str(REPO)), ("PYTHON", self.python)]
        before = recipe.environment.get("PYTHONPATH")
        paths = [str(REPO), str(LIB), *([before] if before else [])]
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
        print(f"[{self.name}] {text}", file=sys.stderr, flush=True)

    def make(self, folder: pathlib.Path) -> pathlib.Path:
        """A folder, made if it is not there."""
        if not self.dry:
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    def made(self, path: pathlib.Path) -> bool:
        """Whether what a command makes is there, as it would be after a dry run's."""
        return self.dry or path.exists()

    def need(self, *tools: str) -> None:
        """Fail now if one of these commands is not installed."""
        for tool in tools:
            if not self.dry and not shutil.which(tool, path=self.environment["PATH"]):
                raise StepError(
                    f"{tool} not found: run 'pip install -e {REPO}' in the environment of "
                    f"{self.python}"
                )

    def run(
        self,
        *command: Any,
        log: pathlib.Path | None = None,
        out: pathlib.Path | None = None,
        mode: str = "a",
        failure: str | None = None,
    ) -> None:
        """Run a command, and remember it for the record.

        Args:
            command: its words.
            log: file for its stderr, and for its stdout without ``out``.
            out: file for its stdout.
            mode: of ``log``: ``a`` keeps what earlier runs wrote there, ``w`` does not.
            failure: the error where it fails; by default, to see the log.
        """
        words = [str(word) for word in command]
        if self._note(shlex.join(words) + (f" > {out}" if out else "")):
            return
        with contextlib.ExitStack() as stack:
            stderr = stack.enter_context(open(log, f"{mode}b")) if log else None
            stdout = stack.enter_context(open(out, "wb")) if out else stderr
            done = subprocess.run(words, env=self.environment, stdout=stdout, stderr=stderr)
        if done.returncode:
            name = pathlib.Path(words[1] if words[0] == self.python else words[0]).name
            raise StepError(failure or f"{name} failed: see {log or 'above'}")

    def _note(self, command: str) -> bool:
        """Remember a command; in a dry run print it; returns whether it is not to be run."""
        self.commands.append(command)
        if self.dry:
            print(command, flush=True)
        return self.dry

    def call(self, function: str, *words: Any, **named: Any) -> Any:
        """Call ``module.function`` in this process, and remember it as a command."""
        texts = [function, *map(_text, words), *(f"{k}={_text(v)}" for k, v in named.items())]
        return None if self._note(shlex.join(texts)) else find(function)(*words, **named)

    @contextlib.contextmanager
    def remedy(self, text: str) -> Iterator[None]:
        """Add what else to do to an error where what is within fails."""
        try:
            yield
        except (OSError, ValueError) as error:
            raise StepError(f"{error}; {text}") from error

    def lacks(self, path: pathlib.Path) -> bool:
        """Whether a file is still to be made; in a dry run all are."""
        return self.dry or not path.exists()

    def once(self, path: pathlib.Path, function: str, *words: Any, **named: Any) -> None:
        """Call the function that makes a file, unless that is there."""
        if self.lacks(path):
            self.call(function, *words, **named)

    def average(self, output: pathlib.Path, *words: Any) -> None:
        """Average checkpoints into one for decoding; see average_checkpoints.py."""
        program = LIB / "average_checkpoints.py"
        failure = "average_checkpoints failed: see above"
        self.run(self.python, program, *words, "--output", output, failure=failure)

    def produce(self, path: pathlib.Path, *command: Any, **options: Any) -> None:
        """Unless the file exists, run a command with its stdout going there."""
        if not self.lacks(path):
            return
        self.make(path.parent)
        partial = path.with_name(path.name + ".partial")
        self.run(*command, out=partial, **options)
        if not self.dry:
            partial.replace(path)

    def finished(self, record: pathlib.Path, inputs: Iterable[Any]) -> bool:
        """Whether, by a record, this was done with these inputs."""
        done = not self.dry and records.check(record, list(inputs), self.names)
        if done:
            self.log(f"done before: {record}")
        return done

    def record(self, path: pathlib.Path, inputs: Iterable[Any], *outputs: Any) -> None:
        """Write how these outputs came about, which marks the work as done."""
        if self.dry:
            return
        records.write(
            path,
            step=self.name,
            commands=self.commands,
            notes={"seed": self["SEED"], "threads": self["THREADS"]},
            inputs=list(inputs),
            outputs=list(map(str, outputs)),
            names=self.names,
        )
        self.log(f"wrote {path}")


def _text(value: Any) -> str:
    return shlex.join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def find(function: str) -> Callable[..., Any]:
    """``module.function``, of lib, or of a recipe as ``recipe.module.function``."""
    module, _, name = function.rpartition(".")
    action: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return action


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


def run_recipe(step: Step, name: str, *steps: str, **settings: Any) -> None:
    """Run steps of another recipe (none named: as its settings have it), with these settings."""
    environment = {**step.recipe.environment, **{k: str(v) for k, v in settings.items()}}
    run_steps(Recipe(name, environment, step.dry), steps)
