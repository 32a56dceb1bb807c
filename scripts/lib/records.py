"""Write what a result was made with: commands, versions, commit, date, and hashes of all files.

The file is written last, so that its presence means that the step is done.
"""

import json
import os
import pathlib
import platform
from collections.abc import Iterable, Sequence
from typing import Any

from recipe import Part

from fairseq_specdec.io.atomic import write_json
from fairseq_specdec.io.provenance import cores, origin, sha256

PACKAGES = (
    "fairseq", "ve-fairseq", "fairseq-fixed", "fairseq-specdec", "numpy", "rouge-score",
    "sacrebleu", "sacremoses", "subword-nmt", "torch",
)  # fmt: skip


def files(paths: Iterable[str]) -> list[pathlib.Path]:
    """The named files, and the files below the named folders, without hidden ones."""
    listed: list[pathlib.Path] = []
    for path in map(pathlib.Path, paths):
        below = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        listed += [p for p in below if not p.name.startswith(".")]
    return listed


def shorten(text: str, names: Sequence[tuple[str, str]]) -> str:
    """Replace folders of this machine by their names, the longest first."""
    for name, folder in sorted(names, key=lambda pair: -len(pair[1])):
        text = text.replace(folder, f"${name}")
    return text


def hashes(inputs: Iterable[Any], names: Sequence[tuple[str, str]]) -> dict[str, dict[str, Any]]:
    """Hash and size in bytes of every file, and of parts of recipes, by the shortened path."""
    parts = [each for each in inputs if isinstance(each, Part)]
    found = files(str(each) for each in inputs if not isinstance(each, Part))
    made = {str(each): each.digest() for each in parts}
    made |= {str(path): {"sha256": sha256(path), "bytes": path.stat().st_size} for path in found}
    return {shorten(name, names): hashed for name, hashed in made.items()}


def check(path: pathlib.Path, inputs: Sequence[Any], names: Sequence[tuple[str, str]]) -> bool:
    """Whether `path` records a result of these inputs; False if there is no such file."""
    missing = [str(each) for each in inputs if not isinstance(each, Part)]
    missing = [name for name in missing if not os.path.exists(name)]
    if missing:
        raise ValueError(f"{', '.join(missing)} is missing: run the step that makes it first")
    if not path.is_file():
        return False
    recorded = json.loads(path.read_text(encoding="utf-8"))["inputs"]
    current = hashes(inputs, names)
    changed = sorted(n for n in {*recorded, *current} if recorded.get(n) != current.get(n))
    if changed:
        raise ValueError(
            f"{path}: made from another {', '.join(changed)}; delete the folder {path.parent} to "
            "make it again"
        )
    return True


def write(
    path: pathlib.Path,
    step: str,
    commands: Sequence[str],
    notes: dict[str, str],
    inputs: Sequence[Any],
    outputs: Sequence[str],
    names: Sequence[tuple[str, str]],
) -> None:
    """Record how `outputs` came about.

    Args:
        inputs: files, folders and parts of recipes that were read.
        outputs: files and folders that were made.
        names: (name, folder): `$name` is written for that folder.
    """
    record = {
        "step": step,
        "commands": [shorten(command, names) for command in commands],
        **origin(PACKAGES),
        "machine": {"system": f"{platform.system()} {platform.machine()}", "cores": cores()},
        **notes,
        "inputs": hashes(inputs, names),
        "outputs": hashes(outputs, names),
    }
    write_json(path, record, make_folder=True)
