"""Reading fairseq's checkpoints safely, on every torch."""

import argparse
import collections
import types
import typing
from collections.abc import Callable
from typing import Any

import torch

from fairseq_specdec.io.named import naming

from .settings import plain_settings
from .structure import check_structure
from .unpickling_files import load_checked


def checkpoint_types() -> list[Any]:
    """The types of fairseq checkpoints that ``torch.load`` may make, beyond tensors.

    Found by ablation on checkpoints of fairseq 0.9 to 0.12.3. Entries are in the form of
    ``torch.serialization.add_safe_globals``: an object, or ``(object, name in the file)`` where the
    writer had it under another name.

    - command line: ``argparse.Namespace``;
    - fairseq 0.9: its three meters, then in ``fairseq.meters``;
    - config as a pickled DictConfig (fairseq 1.0.0a0), and rank 0 sending its checkpoint to the
      other processes: omegaconf's nodes, the types that their metadata names, defaultdict, and
      fairseq's stand-in for a tensor.

    numpy's arrays, which ``--eval-bleu`` keeps, are not among them: with their names allowed, a
    file can free the memory of an array under a tensor (torch 2.13, numpy 2.4). The reader of
    ``load_checkpoint`` makes them from checked parts.
    """
    from fairseq.distributed import utils as distributed_utils
    from fairseq.logging import meters
    from omegaconf import DictConfig, ListConfig, base, nodes

    return [
        argparse.Namespace,
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
    plain containers: "Unsupported global". Versions: every fairseq on torch >= 2.6.

    This serves callers of ``torch.load``; fairseq's own reading is that of ``check_checkpoints``.
    """
    # By version: add_safe_globals of 2.4 and 2.5 accepts the (object, name) form and fails later.
    if _torch_asks():
        # A set of allowed objects: adding them again changes nothing.
        torch.serialization.add_safe_globals(checkpoint_types())


def _torch_asks() -> bool:
    """Whether ``torch.load`` refuses types by default; TorchVersion compares with tuples."""
    return bool(torch.__version__ >= (2, 6))  # type: ignore[operator]


def load_checkpoint(file: Any) -> Any:
    """Content of a checkpoint, on the CPU, by the reader of ``unpickling``.

    Args:
        file: a path or an open file.

    Its settings are rebuilt from plain values (``settings.plain_settings``).

    Raises:
        UnpicklingError: the file is damaged or names something that no checkpoint holds; nothing of
            it was run.
        RefusedCheckpointError: its settings hold an interpolation or an object.
        OSError: it cannot be read; names the file.
    """
    name = str(getattr(file, "name", file))
    with naming(name):
        return plain_settings(load_checked(file), name)


def load_model(file: Any) -> Any:
    """``load_checkpoint`` of a file that must hold a model. Raises RefusedCheckpointError: it holds
    something else, which is named."""
    state = load_checkpoint(file)
    check_structure(state, str(getattr(file, "name", file)))
    return state


class _CheckingTorch(types.ModuleType):
    """torch, as fairseq's modules that read checkpoints see it."""

    def __init__(self, read: Callable[[Any], Any]) -> None:
        super().__init__("torch")
        self._read = read

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def load(self, f: Any, map_location: Any = None) -> Any:
        return self._read(f)


def check_checkpoints() -> None:
    """Read checkpoints by this project's reader, on every torch.

    Fault: fairseq calls ``torch.load``, which before 2.6 unpickles whatever a file names, so that a
    checkpoint can run any command. (``weights_only`` is no help there: torch 1.13 has it, and reads
    no floating-point number in it, let alone a Namespace; up to 2.5 a file can get round it,
    CVE-2025-32434.) From 2.6 to 2.9 torch checks what a file names, and a file can still corrupt
    memory (CVE-2026-24747). In 2.13 it still can through numpy's names, which checkpoints of
    ``--eval-bleu`` need, and end the process. On every torch fairseq resolves the interpolations
    among a checkpoint's settings. Versions: all.

    Concerned are fairseq's ``checkpoint_utils``, and, where ``torch.load`` would refuse numpy's
    arrays (torch >= 2.6), its passing of a checkpoint from process to process. ``torch.load``
    itself stays as it is.
    """
    from fairseq import checkpoint_utils
    from fairseq.distributed import utils as distributed_utils

    if not isinstance(checkpoint_utils.torch, _CheckingTorch):
        checkpoint_utils.torch = _CheckingTorch(load_model)
    # What a process sends has been read and checked by it; its settings are objects by then.
    if _torch_asks() and not isinstance(distributed_utils.torch, _CheckingTorch):
        distributed_utils.torch = _CheckingTorch(load_checked)
