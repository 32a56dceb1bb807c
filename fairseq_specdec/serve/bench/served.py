"""The process that is measured: ``specdec-serve``, or the same with CTranslate2 as its engine.

``python -m fairseq_specdec.serve.bench.served ENGINE [flags of specdec-serve]``
"""

import functools
import importlib
import sys
from typing import Any

from ..cli import serve

OURS = "engine"


def main(words: list[str]) -> None:
    """Serve. ``words``: ``OURS`` or a number format of CTranslate2, and the command line."""
    engine, *flags = words
    if engine == OURS:
        serve(flags)
        return
    peer: Any = importlib.import_module("fairseq_specdec.serve.bench.peer")
    serve(flags, functools.partial(peer.service, engine))


if __name__ == "__main__":
    main(sys.argv[1:])
