"""Where fairseq-hydra-train writes a relative folder."""

import logging
import os
from typing import Any

from .patch import wrap_once

logger = logging.getLogger(__name__)


def say_where_hydra_saves() -> None:
    """Say in one line where ``checkpoint.save_dir`` is, where it is not where the user is.

    Fault: hydra runs in a folder of its own, by date and time, unless the YAML names another.
    A relative ``save_dir`` lies there, and nothing says so: the next run finds no checkpoint to go
    on from. Versions: all.
    """
    from fairseq import checkpoint_utils

    wrap_once(checkpoint_utils, "verify_checkpoint_directory", "say_where_hydra_saves", _verify)


def _verify(original: Any, save_dir: str) -> None:
    from hydra.core.hydra_config import HydraConfig

    original(save_dir)
    if os.path.isabs(save_dir) or not HydraConfig.initialized():
        return
    started_in = HydraConfig.get().runtime.cwd
    if os.path.realpath(started_in) != os.getcwd():
        logger.info(
            "checkpoint.save_dir: %s, since hydra runs in a folder of its own; hydra.run.dir=. "
            "keeps it in yours",
            os.path.abspath(save_dir),
        )
