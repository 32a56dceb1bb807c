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
    """The fastest strategy of a pair, one sentence at a time, at the measured beam that is nearest
    to that of ``flags``, those of ``from_pretrained``; None where the pair was not measured, or
    another drafter was, or a flag is one of drafts."""
    path = os.path.join(folder, MEASURED)
    asked, of_all = flags.get("beam", 1), ("greedy",)
    of_drafts = any(f == "block_size" or "greedy" not in OWN_FLAGS.get(f, of_all) for f in flags)
    if of_drafts or not isinstance(asked, int) or not os.path.isfile(path):
        return None
    noted = read_json(path)
    beams: dict[str, str] = noted["pairs"].get("-".join(pair))
    if not beams:
        return None
    if noted["drafter"] != _identity(drafter):
        remedy = "run specdec-accelerate for this one, or delete the file"
        logger.warning("%s: was measured with another drafter than %s; %s", path, drafter, remedy)
        return None
    beam = min(beams, key=lambda each: (abs(int(each) - asked), int(each)))
    logger.info("%s: strategy %s, the fastest at beam %s by %s", folder, beams[beam], beam, path)
    return beams[beam]
