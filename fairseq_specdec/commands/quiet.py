"""Silence what fairseq's dependencies say of fairseq, which no user can change."""

import logging
import warnings

# Of the way in which fairseq calls hydra: 20 lines in every command.
HYDRA = (
    r"\s*'config' is validated against ConfigStore",
    r"\s*The version_base parameter",
    r"\s*The strict flag in the compose API",
)


def quieten_hydra() -> None:
    """For commands only: a library leaves the warnings of its host program as they are."""
    warnings.filterwarnings("ignore", module=r"hydra\.")
    for message in HYDRA:
        warnings.filterwarnings("ignore", message=message)
    logging.getLogger("hydra").setLevel(logging.WARNING)
