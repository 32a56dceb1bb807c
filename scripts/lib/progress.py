"""Progress on stderr: a bar on a terminal; elsewhere log lines only."""

import logging
import sys
from typing import Any, Iterable, Optional

from tqdm import tqdm


def log_to_stderr() -> None:
    """Send log records of level INFO and above to stderr."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)


def bar(
    items: Optional[Iterable[Any]] = None,
    title: Optional[str] = None,
    total: Optional[int] = None,
    initial: int = 0,
    unit: str = "line",
) -> Any:
    """A bar that is shown only where stderr is a terminal, and erased when it is closed.

    The package has the same in ``fairseq_specdec.progress``, but importing it takes seconds.

    Args:
        items: what to iterate over; None to call ``update``, in a ``with`` block.
        title: said before the bar.
        total: how much there is; by default the length of ``items``.
        initial: how much of it is done already.
        unit: what is counted; ``B`` for bytes.
    """
    in_bytes = unit == "B"
    return tqdm(
        items,
        desc=title,
        total=total,
        initial=initial,
        unit=unit if in_bytes else " " + unit,
        unit_scale=in_bytes,
        unit_divisor=1024 if in_bytes else 1000,
        file=sys.stderr,
        disable=None,  # where the file is no terminal
        dynamic_ncols=True,
        leave=False,
    )
