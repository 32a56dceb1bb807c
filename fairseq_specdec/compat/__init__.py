"""Patches of fairseq, torch and numpy, applied at import.

``--user-dir`` imports the package before configs are converted and before any checkpoint is read,
so every fairseq command runs with the patches. There is one function for each fault, which names
what it replaces (``patch.fixes``). It applies only where the fault exists (wherever possible it
checks the installed library, not a version), and applying it twice changes nothing. Those of
reading checkpoints are in ``checkpoints.patches``.
"""

from . import (  # noqa: F401
    activations,
    batching,
    better_transformer,
    bf16,
    data_files,
    distributed,
    hub_task,
    literals,
    ngrams,
    subword_files,
    task_faults,
    user_dir,
)
from .patch import FIXES, apply

__all__ = ["FIXES", "apply"]
