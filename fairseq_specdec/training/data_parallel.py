"""Decoding in training with a model that fairseq wrapped for several processes."""

from typing import Any

from fairseq_specdec.errors import UsageError


def check_whole(flag: str, ddp_backend: Any) -> None:
    """Refuse to decode in training with a model of which each process has a part only. ``flag``:
    asks for it."""
    if getattr(ddp_backend, "value", ddp_backend) == "fully_sharded":
        raise UsageError(
            flag,
            "--ddp-backend fully_sharded keeps a part of the model in each process, which "
            "cannot decode alone",
            f"use --ddp-backend pytorch_ddp, or leave out {flag}",
        )


def unwrapped(model: Any) -> Any:
    """The model inside fairseq's data-parallel wrappers."""
    while hasattr(model, "module"):
        model = model.module
    return model
