"""The files of a model folder: only those in it, and JSON that is what it should be."""

import json
import os
from typing import Any, Dict

from fairseq_specdec.io.contents import check_content
from fairseq_specdec.io.printable import flat_message

LARGEST_JSON = 64 << 20  # tokenizer.json of 256,000 pieces has 17 MB


class ModelFolder:
    """A folder as transformers saves it, or a snapshot in its cache. No code of it is run."""

    def __init__(self, path: str) -> None:
        if not os.path.isdir(path):
            raise ValueError(f"{path}: no such folder; name one with config.json in it")
        self.path = path
        self._inside = _reach(os.path.realpath(path))
        if not self.has("config.json"):
            raise ValueError(f"{path}: no config.json in it; name a model folder of transformers")

    def has(self, name: str) -> bool:
        return os.path.lexists(os.path.join(self.path, name))

    def file(self, name: str) -> str:
        """The path of a file. Raises ValueError: it is not in the folder, or is no regular file."""
        if not name or os.path.basename(name) != name or name in (".", ".."):
            raise ValueError(f"{self.path}: names the file {name!r}, outside of the folder")
        path = os.path.join(self.path, name)
        if not os.path.lexists(path):
            raise ValueError(f"{path}: no such file; copy the whole folder")
        real = os.path.realpath(path)
        if os.path.commonpath([real, self._inside]) != self._inside:
            raise ValueError(f"{path}: is a link to {real}, outside of the folder")
        if not os.path.isfile(real):
            raise ValueError(f"{path}: is no regular file; copy the whole folder")
        check_content(path, "a file of a model")
        return path

    def json(self, name: str) -> Dict[str, Any]:
        """The object in a JSON file; {} where there is no such file."""
        if not self.has(name):
            return {}
        path = self.file(name)
        if os.path.getsize(path) > LARGEST_JSON:
            raise ValueError(f"{path}: {os.path.getsize(path)} bytes; no such file is that large")
        try:
            with open(path, encoding="utf-8") as stream:
                content = json.load(stream)
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"{path}: is no JSON file ({flat_message(error, 100)}); copy it again"
            ) from error
        if not isinstance(content, dict):
            raise ValueError(f"{path}: holds a {type(content).__name__}, no object; copy it again")
        return content


def _reach(real: str) -> str:
    """The folder that links may lead into: transformers' cache keeps a snapshot's files beside it,
    as models--NAME/snapshots/COMMIT/FILE -> models--NAME/blobs/DIGEST."""
    above, snapshots = os.path.split(os.path.dirname(real))
    if snapshots == "snapshots" and os.path.basename(above).startswith("models--"):
        return above
    return real
