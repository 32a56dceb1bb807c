"""Draft-then-verify decoding for fairseq, as a plugin: ``--user-dir fairseq_specdec``.

Importing the package patches faults of the installed fairseq, torch and numpy (see
``compat``), then registers the tasks, models and criterions. It prints nothing, and leaves the root
logger as it was.
"""

if __name__ != "fairseq_specdec":
    # fairseq calls a --user-dir as its folder is called; the commands import it by its own name,
    # and two of it cannot be registered.
    raise ImportError(
        f"--user-dir {__path__[0]}: the plugin works under its own name only; "
        "call the folder, or the link to it, fairseq_specdec"
    )

from .host_logging import host_logging_kept  # noqa: E402
from .version import __version__  # noqa: E402

with host_logging_kept():
    import fairseq  # noqa: F401

from . import compat  # noqa: E402

compat.apply()

from .commands.in_fairseq import install  # noqa: E402

install()

from . import criterions, models, tasks  # noqa: E402  (fairseq is patched before it is extended)

__all__ = ["__version__", "compat", "criterions", "models", "tasks"]
