"""Which steps are done, in one file that is either whole or absent."""

import os
from typing import Any

from fairseq_specdec.errors import UsageError

from ..io.atomic import read_json, write_json

LOCK = "accelerate.lock"


class State:
    """Steps that are done and what they found. ``settings``: those that stay the same."""

    def __init__(self, folder: str, settings: dict[str, Any]) -> None:
        self._path, self._settings = os.path.join(folder, "state.json"), settings
        begun = os.path.exists(self._path)
        if not begun and os.path.isdir(folder) and set(os.listdir(folder)) - {LOCK}:
            problem = f"{folder} exists and was not made by this command"
            raise UsageError("--out", problem, "choose another")
        os.makedirs(folder, exist_ok=True)
        before = read_json(self._path) if begun else {}
        self._steps: dict[str, Any] = before.get("steps", {})
        # until a step has begun nothing is made of them
        for name, value in before.get("settings", {}).items() if self._steps else ():
            if settings.get(name) != value:
                given = f"--{name.replace('_', '-')} {settings.get(name)}"
                problem = f"{folder} was begun with {value}"
                raise UsageError(given, problem, "give that, or another --out")
        self._write()

    def _write(self) -> None:
        write_json(self._path, {"settings": self._settings, "steps": self._steps})

    def results(self, step: str) -> dict[str, Any]:
        """What a step has found so far; {} if it has not begun."""
        return dict(self._steps.get(step, {}))

    def done(self, step: str) -> bool:
        return bool(self.results(step).get("done"))

    def note(self, step: str, done: bool = True, **results: Any) -> None:
        """Record what a step has found, and whether it is complete."""
        self._steps[step] = dict(self.results(step), done=done, **results)
        self._write()
