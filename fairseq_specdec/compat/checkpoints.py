"""Reading fairseq's checkpoints with torch's safe loader, and across numpy releases."""

from __future__ import annotations

import argparse
import collections
import functools
import importlib
import sys
import types
import typing
from typing import Any, Dict, List

import numpy as np
import torch

from .settings import plain_settings
from .unpickling import allowed, load_checked


def checkpoint_types() -> List[Any]:
    """Every type that a fairseq checkpoint holds beyond tensors, and nothing else.

    Found by ablation on checkpoints of fairseq 0.9 to 0.12.3. Entries are in the form of
    ``torch.serialization.add_safe_globals``: an object, or ``(object, name in the file)`` where the
    writer knew it by another name.

    - command line: ``argparse.Namespace``;
    - with ``--eval-bleu``: an int64 array, whose ``_reconstruct`` is ``numpy.core`` for numpy 1 and
      ``numpy._core`` for numpy 2;
    - fairseq 0.9: its three meters, then in ``fairseq.meters``;
    - config as a pickled DictConfig (fairseq 1.0.0a0), and rank 0 sending its checkpoint to the
      other processes: omegaconf's nodes, the types that their metadata names, defaultdict, and
      fairseq's stand-in for a tensor.
    """
    from fairseq.distributed import utils as distributed_utils
    from fairseq.logging import meters
    from omegaconf import DictConfig, ListConfig, base, nodes

    reconstruct = np.zeros(1).__reduce__()[0]
    return [
        argparse.Namespace,
        np.ndarray,
        np.dtype,
        type(np.dtype(np.int64)),
        (reconstruct, "numpy.core.multiarray._reconstruct"),
        (reconstruct, "numpy._core.multiarray._reconstruct"),
        (meters.AverageMeter, "fairseq.meters.AverageMeter"),
        (meters.TimeMeter, "fairseq.meters.TimeMeter"),
        (meters.StopwatchMeter, "fairseq.meters.StopwatchMeter"),
        distributed_utils._TensorPlaceholder,
        collections.defaultdict,
        DictConfig,
        ListConfig,
        base.ContainerMetadata,
        base.Metadata,
        nodes.AnyNode,
        (typing.Any, "typing.Any"),  # no class before Python 3.11, so it needs its name
        dict,
        list,
        int,
    ]


def allow_checkpoint_types() -> None:
    """Let ``torch.load(weights_only=True)`` read fairseq's checkpoints; the check stays on.

    Fault: torch >= 2.6 loads with ``weights_only=True`` and refuses every type but tensors and
    plain containers, so resuming, fairseq-generate and fairseq-interactive die with "Unsupported
    global". Versions: every fairseq on torch >= 2.6.

    A checkpoint that names anything outside ``checkpoint_types`` is still refused, and runs no
    code. On torch < 2.10 see ``check_checkpoints``.
    """
    # By version: add_safe_globals of 2.4 and 2.5 accepts the (object, name) form and fails later.
    if torch.__version__ >= (2, 6):  # type: ignore[operator]  # TorchVersion compares with tuples
        # A set of allowed objects: adding them again changes nothing.
        torch.serialization.add_safe_globals(checkpoint_types())


def torch_checks() -> bool:
    """Whether this torch checks checkpoints itself, and does it well (CVE-2026-24747)."""
    return bool(torch.__version__ >= (2, 10))  # type: ignore[operator]


@functools.lru_cache(maxsize=1)
def _names() -> Dict[str, Any]:
    return allowed(checkpoint_types())


def load_checkpoint(file: Any, map_location: Any = "cpu") -> Any:
    """``torch.load`` of a path or file that makes and calls nothing but ``checkpoint_types``.

    Its settings are rebuilt from plain values (``settings.plain_settings``).

    Raises:
        UnpicklingError: the file names something else; nothing of it was run.
        RefusedCheckpointError: its settings hold an interpolation or an object.
    """
    if torch_checks():
        state = torch.load(file, map_location=map_location, weights_only=True)
    else:
        state = load_checked(file, _names(), map_location)
    return plain_settings(state, str(getattr(file, "name", file)))


class _CheckingTorch(types.ModuleType):
    """torch, as fairseq's ``checkpoint_utils`` sees it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @staticmethod
    def load(f: Any, map_location: Any = None) -> Any:
        """As torch's, by the list."""
        return load_checkpoint(f, map_location)


def check_checkpoints() -> None:
    """Let fairseq read checkpoints by ``load_checkpoint``, on every torch.

    Fault: fairseq calls ``torch.load``, which before 2.6 unpickles whatever a file says, so that a
    checkpoint can run any command. (``weights_only`` is no help there: torch 1.13 has it, and reads
    no floating-point number in it, let alone a Namespace; up to 2.5 a file can get round it,
    CVE-2025-32434.) From 2.6 to 2.9 torch checks what a file names, and a file can still corrupt
    memory (CVE-2026-24747). On every torch fairseq resolves the interpolations among a
    checkpoint's settings. Versions: all.

    Only fairseq's ``checkpoint_utils`` is concerned; ``torch.load`` itself stays as it is.
    """
    from fairseq import checkpoint_utils

    if not isinstance(checkpoint_utils.torch, _CheckingTorch):
        checkpoint_utils.torch = _CheckingTorch("torch")


def numpy_core_alias() -> None:
    """Let numpy < 1.26 read arrays written under numpy 2, whose core is named ``numpy._core``.

    Fault: ``--eval-bleu`` keeps arrays in the checkpoint, and unpickling them imports
    ``numpy._core.multiarray``: "No module named 'numpy._core'". Versions: numpy < 1.26.
    """
    try:
        importlib.import_module("numpy._core.multiarray")
    except ImportError:
        core = importlib.import_module("numpy.core")
        sys.modules["numpy._core"] = core
        sys.modules["numpy._core.multiarray"] = core.multiarray


def old_meters_alias() -> None:
    """Let checkpoints of fairseq 0.9, whose meters were in ``fairseq.meters``, be unpickled.

    Fault: ``extra_state`` of 0.9 holds meter objects, and on torch < 2.6 unpickling them imports
    their old module: "No module named 'fairseq.meters'". Versions: fairseq >= 0.10.
    """
    try:
        importlib.import_module("fairseq.meters")
    except ImportError:
        sys.modules["fairseq.meters"] = importlib.import_module("fairseq.logging.meters")
