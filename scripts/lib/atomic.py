"""Write files so that a final name only ever holds a finished file."""

import contextlib
import json
import os
import pathlib
from typing import IO, Any, Iterable, Iterator, List, Union

PathLike = Union[str, "os.PathLike[str]"]


@contextlib.contextmanager
def replacing(path: PathLike, mode: str = "w") -> Iterator[IO]:
    """Open a temporary file beside `path`; rename it on success, remove it on failure."""
    final = pathlib.Path(path)
    final.parent.mkdir(parents=True, exist_ok=True)
    partial = final.with_name(f".{final.name}.{os.getpid()}.partial")
    options = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    try:
        with open(partial, mode, **options) as stream:
            yield stream
        partial.replace(final)
    finally:
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()


def write_lines(path: PathLike, lines: Iterable[str]) -> None:
    """Write one string a line, in UTF-8."""
    with replacing(path) as stream:
        stream.writelines(line + "\n" for line in lines)


def write_json(path: PathLike, value: Any) -> None:
    """Write a value as JSON that people can read."""
    with replacing(path) as stream:
        json.dump(value, stream, indent=1)
        stream.write("\n")


def read_lines(path: PathLike) -> List[str]:
    """Lines of a UTF-8 file without their ends; only a line feed ends a line."""
    with open(path, encoding="utf-8", newline="\n") as stream:
        return [line.rstrip("\n") for line in stream]
