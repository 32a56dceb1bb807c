"""How a folder decodes fastest, as ``specdec-accelerate`` notes it beside the drafter."""

import logging
import os
from typing import Any, Dict, Mapping, Optional, Tuple

from fairseq_specdec.decoding.strategies import OWN_FLAGS
from fairseq_specdec.io.atomic import read_json, write_json

logger = logging.getLogger(__name__)

MEASURED = "fastest.json"


def note(folder: str, ways: Mapping[str, Mapping[int, str]]) -> None:
    """Write the fastest strategy of each pair (``en-de``) by beam, one sentence at a time."""
    write_json(os.path.join(folder, MEASURED), ways)


def fastest(folder: str, pair: Tuple[str, str], flags: Dict[str, Any]) -> Optional[str]:
    """The fastest strategy of a pair, ``greedy`` or ``gad``, one sentence at a time.

    Args:
        flags: as for ``from_pretrained``. ``beam`` (default 1): the nearest that was measured.

    Returns:
        None where the pair was not measured, or a flag is one of drafts.

    Raises:
        ValueError: the file is damaged.
    """
    path = os.path.join(folder, MEASURED)
    if not os.path.isfile(path) or any(map(_of_drafts, flags)):
        return None
    beams, asked = read_json(path).get("-".join(pair)), flags.get("beam", 1)
    if not beams or not isinstance(asked, int):
        return None
    try:
        _, beam, way = min((abs(int(beam) - asked), int(beam), way) for beam, way in beams.items())
    except (AttributeError, TypeError, ValueError):
        way = None
    if way not in ("greedy", "gad"):
        raise ValueError(f"{path}: is damaged; delete it, and specdec-accelerate writes it again")
    logger.info("%s: strategy %s, which is the fastest at beam %d by %s", folder, way, beam, path)
    return str(way)


def _of_drafts(flag: str) -> bool:
    return flag == "block_size" or "greedy" not in OWN_FLAGS.get(flag, ("greedy",))
