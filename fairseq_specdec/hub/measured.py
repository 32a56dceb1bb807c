"""How a folder decodes fastest, as ``specdec-accelerate`` notes it beside the drafter."""

import logging
import os
from collections.abc import Mapping
from typing import Any

from fairseq_specdec.decoding.strategies import OWN_FLAGS
from fairseq_specdec.io.atomic import read_json, write_json
from fairseq_specdec.io.provenance import sha256

logger = logging.getLogger(__name__)

MEASURED = "fastest.json"


def note(folder: str, drafter: str, ways: Mapping[str, Mapping[int, str]]) -> None:
    """Write the fastest strategy of each pair (``en-de``) by beam, one sentence at a time, with
    ``drafter`` (its checkpoint)."""
    write_json(os.path.join(folder, MEASURED), {"drafter": _identity(drafter), "pairs": ways})


def _identity(path: str) -> dict[str, Any]:
    return {"bytes": os.path.getsize(path), "sha256": sha256(path)}


def fastest(folder: str, drafter: str, pair: tuple[str, str], flags: dict[str, Any]) -> str | None:
    """The fastest strategy of a pair, ``greedy``, ``gad`` or ``iad``, one sentence at a time.

    Args:
        drafter: the checkpoint that drafts would be made with.
        flags: as for ``from_pretrained``. ``beam`` (default 1): the nearest that was measured.

    Returns:
        None where the pair was not measured, or another drafter was, or a flag is one of drafts.
    """
    path, asked = os.path.join(folder, MEASURED), flags.get("beam", 1)
    of_drafts = (f == "block_size" or "greedy" not in OWN_FLAGS.get(f, ("greedy",)) for f in flags)
    if not os.path.isfile(path) or any(of_drafts) or not isinstance(asked, int):
        return None
    noted = read_json(path)
    beams = noted["pairs"].get("-".join(pair))
    if not beams:
        return None
    beam = min(map(int, beams), key=lambda each: (abs(each - asked), each))
    if noted["drafter"] != _identity(drafter):
        logger.warning(
            "%s: was measured with another drafter than %s, and is not used; run "
            "specdec-accelerate for this one, or delete the file", path, drafter,
        )  # fmt: skip
        return None
    way: str = beams[str(beam)]
    logger.info("%s: strategy %s, which is the fastest at beam %d by %s", folder, way, beam, path)
    return way
