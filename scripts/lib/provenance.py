"""Write what a result was made with: commands, versions, commit, date, and hashes of all files.

The file is written last, so that its presence means that the step is done. `--check` compares the
inputs with those of an earlier run instead.
"""

import argparse
import datetime
import hashlib
import json
import logging
import os
import pathlib
import platform
import subprocess
import sys
from importlib import metadata
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from atomic import replacing
from progress import log_to_stderr

logger = logging.getLogger("provenance")
PACKAGES = (
    "fairseq", "ve-fairseq", "fairseq-fixed", "fairseq-specdec", "numpy", "rouge-score",
    "sacrebleu", "sacremoses", "subword-nmt", "torch",
)  # fmt: skip
NOT_DONE, STALE = 1, 2


def sha256(path: pathlib.Path) -> str:
    """Hash of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def files(paths: Iterable[str]) -> List[pathlib.Path]:
    """The named files, and the files below the named folders, without hidden ones."""
    found: List[pathlib.Path] = []
    for path in map(pathlib.Path, paths):
        below = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        found += [p for p in below if not p.name.startswith(".")]
    return found


def shorten(text: str, names: Sequence[Tuple[str, str]]) -> str:
    """Replace folders of this machine by their names, the longest first."""
    for name, folder in sorted(names, key=lambda pair: -len(pair[1])):
        text = text.replace(folder, f"${name}")
    return text


def hashes(paths: Iterable[str], names: Sequence[Tuple[str, str]]) -> Dict[str, Dict[str, Any]]:
    """Hash and size in bytes of every file, by its shortened path."""
    return {
        shorten(str(path), names): {"sha256": sha256(path), "bytes": path.stat().st_size}
        for path in files(paths)
    }


def versions() -> Dict[str, str]:
    """Python and the installed packages that shape a result."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def commit(folder: str) -> Optional[str]:
    """The git commit of a folder, with `-dirty` if it has changes; None without git."""
    command = ["git", "-C", folder, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except FileNotFoundError:
        return None
    return done.stdout.decode("ascii").strip() or None


def check(path: pathlib.Path, inputs: Dict[str, Dict[str, Any]]) -> int:
    """0 if `path` records these inputs, NOT_DONE if it is absent, STALE if the inputs differ."""
    if not path.is_file():
        return NOT_DONE
    recorded = json.loads(path.read_text(encoding="utf-8"))["inputs"]
    changed = sorted(
        name for name in {*recorded, *inputs} if recorded.get(name) != inputs.get(name)
    )
    if changed:
        logger.error(
            "%s: made from another %s; delete the folder %s to make it again",
            path,
            ", ".join(changed),
            path.parent,
        )
        return STALE
    return 0


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the command; returns its exit status."""
    log_to_stderr()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=pathlib.Path, help="JSON file to write, or to check")
    parser.add_argument("--check", action="store_true", help="compare the inputs, write nothing")
    parser.add_argument("--step", default="", help="name of the step")
    parser.add_argument("--command", action="append", default=[], help="a command that was run")
    parser.add_argument("--input", action="append", default=[], help="file or folder")
    parser.add_argument("--output", action="append", default=[], help="file or folder")
    parser.add_argument("--note", action="append", default=[], help="KEY=VALUE to record")
    parser.add_argument(
        "--name", action="append", default=[], help="NAME=FOLDER: write $NAME for that folder"
    )
    options = parser.parse_args(arguments)
    names = [tuple(name.split("=", 1)) for name in options.name]
    missing = [path for path in options.input if not os.path.exists(path)]
    if missing:
        logger.error("%s is missing: run the step that makes it first", ", ".join(missing))
        return STALE
    inputs = hashes(options.input, names)
    if options.check:
        return check(options.path, inputs)
    record = {
        "step": options.step,
        "commands": [shorten(command, names) for command in options.command],
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(str(pathlib.Path(__file__).resolve().parent)),
        "versions": versions(),
        "machine": {"system": f"{platform.system()} {platform.machine()}", "cores": os.cpu_count()},
        **dict(note.split("=", 1) for note in options.note),
        "inputs": inputs,
        "outputs": hashes(options.output, names),
    }
    with replacing(options.path) as stream:
        json.dump(record, stream, indent=2, ensure_ascii=False)
        stream.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
