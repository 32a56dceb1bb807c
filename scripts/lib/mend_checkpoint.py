"""Before a training run goes on: see that its checkpoint_last.pt is whole.

fairseq makes that file by copying the newest checkpoint; a run that is killed meanwhile leaves a
file that no run can go on from. It is replaced by the newest checkpoint that is whole.
"""

import pathlib
import re
import shutil
import zipfile
from typing import Optional

from specdec_io.atomic import replacing

LAST = "checkpoint_last.pt"


def updates_of(path: pathlib.Path) -> int:
    """The updates that a checkpoint's name gives; -1 if it gives none."""
    found = re.fullmatch(r"checkpoint_\d+_(\d+)\.pt", path.name)
    return int(found.group(1)) if found else -1


def mend(folder: pathlib.Path) -> Optional[pathlib.Path]:
    """Replace a broken checkpoint_last.pt, if there is one; what it was replaced by.

    A checkpoint is a zip archive, whose directory is at its end: a cut-off file has none.

    Raises:
        ValueError: no checkpoint is whole.
    """
    last = folder / LAST
    if not last.exists() or zipfile.is_zipfile(str(last)):
        return None
    others = sorted(folder.glob("checkpoint_*_*.pt"), key=updates_of, reverse=True)
    for path in others:
        if updates_of(path) >= 0 and zipfile.is_zipfile(str(path)):
            with open(path, "rb") as stream, replacing(last, "wb") as copy:
                shutil.copyfileobj(stream, copy)
            return path
    raise ValueError(f"{last} is cut off, and so are the others: delete it to start anew")
