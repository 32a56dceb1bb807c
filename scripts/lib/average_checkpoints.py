"""Average the last checkpoints of a training run into one small checkpoint for decoding.

Parameters are averaged in float64 and stored in the type they had, or in fp16 by --half. What
decoding needs (configuration, epoch) is kept from the newest checkpoint; optimizer state and
meters are dropped. Absolute paths in the configuration keep their last component only, so that
the file has nothing about the machine that trained it.
"""

import argparse
import hashlib
import logging
import os
import pathlib
import pickle
import sys
from collections.abc import Sequence
from typing import Any

import torch
from models import updates_of

from fairseq_specdec.checkpoints.reading import load_checkpoint
from fairseq_specdec.io.atomic import replacing
from fairseq_specdec.io.progress import erased_bar as bar

logger = logging.getLogger("average_checkpoints")


def load(path: pathlib.Path) -> dict[str, Any]:
    """A fairseq checkpoint on the CPU; the file runs no code."""
    try:
        state = load_checkpoint(str(path))
    except (EOFError, RuntimeError, pickle.UnpicklingError) as error:
        raise ValueError(f"{path} cannot be read, it may be truncated: {error}") from error
    if not isinstance(state, dict) or "model" not in state:
        raise ValueError(f"{path} is no fairseq checkpoint: it has no 'model'")
    return state


def last_checkpoints(folder: pathlib.Path, count: int) -> list[pathlib.Path]:
    """The `count` newest checkpoints that --save-interval-updates wrote, the newest last.

    An update that also ends an epoch is saved as checkpoint_last.pt alone, which counts too.
    """
    numbered = [(updates_of(path), path) for path in folder.glob("checkpoint_*_*.pt")]
    saved = [pair for pair in numbered if pair[0] >= 0]
    last = folder / "checkpoint_last.pt"
    if last.is_file():
        updates = load(last)["optimizer_history"][-1]["num_updates"]
        if updates > max(saved, default=(0, last))[0]:
            saved.append((updates, last))
    if len(saved) < count:
        raise ValueError(
            f"{folder} holds {len(saved)} checkpoints of different updates, and --last needs "
            f"{count}; train longer, save more often (--save-interval-updates) or ask for fewer"
        )
    return [path for _, path in sorted(saved)[-count:]]


def average(paths: Sequence[pathlib.Path]) -> dict[str, Any]:
    """The newest (last) checkpoint of `paths` with all parameters averaged over them.

    Integer buffers, such as a version counter, are taken from the newest.
    """
    newest = load(paths[-1])
    model: dict[str, torch.Tensor] = newest["model"]
    sums = {name: value.double() for name, value in model.items() if value.is_floating_point()}
    for path in bar(paths[:-1], "averaging", unit="checkpoint"):
        other = load(path)["model"]
        if {n: v.shape for n, v in other.items()} != {n: v.shape for n, v in model.items()}:
            raise ValueError(f"{path} and {paths[-1]} hold different parameters; average one run")
        for name in sums:
            sums[name] += other[name].double()
    for name, total in sums.items():
        model[name] = (total / len(paths)).to(model[name].dtype)
    return newest


def put_back(state: dict[str, Any], frozen: pathlib.Path) -> None:
    """Take every parameter of the checkpoint `frozen` from there, in its own type, in place.

    Training in bf16 or fp16 rounds also what it does not train.
    """
    model = state["model"]
    for name, value in load(frozen)["model"].items():
        if name not in model or model[name].shape != value.shape:
            raise ValueError(
                f"--frozen {frozen}: {name} is no parameter of this model; give its base"
            )
        model[name] = value


def forget_paths(settings: Any) -> None:
    """Cut absolute paths in a configuration (nested dicts and Namespaces) to their last component,
    in place."""
    fields = vars(settings) if isinstance(settings, argparse.Namespace) else settings
    for name, value in fields.items() if isinstance(fields, dict) else ():
        if isinstance(value, str):
            parts = value.split(os.pathsep)
            kept = (os.path.basename(p.rstrip("/")) if os.path.isabs(p) else p for p in parts)
            fields[name] = os.pathsep.join(kept)
        else:
            forget_paths(value)


def share_equal(model: dict[str, torch.Tensor]) -> None:
    """Let equal tensors be one, in place: torch.save then writes tied embeddings once."""
    kept: dict[bytes, torch.Tensor] = {}
    for name, value in model.items():
        content = value.contiguous().cpu().flatten().view(torch.uint8).numpy()
        digest = hashlib.sha256(content)
        digest.update(f"{value.dtype} {tuple(value.shape)}".encode("ascii"))
        model[name] = kept.setdefault(digest.digest(), value)


def shrink(state: dict[str, Any], half: bool) -> dict[str, Any]:
    """Drop what decoding does not need, and store parameters in fp16 if `half`, in place."""
    state.pop("last_optimizer_state", None)
    state.get("extra_state", {}).pop("metrics", None)
    forget_paths(state.get("cfg"))
    forget_paths(state.get("args"))
    for name, value in state["model"].items():
        if name.endswith("._float_tensor"):
            # fairseq up to 0.12.2 keeps a number that nobody ever set, to know its type by.
            state["model"][name] = value = torch.zeros_like(value)
        if half and value.is_floating_point():
            if not torch.isfinite(value.half()).all():
                raise ValueError(f"{name} does not fit into fp16; leave out --half")
            state["model"][name] = value.half()
    share_equal(state["model"])
    return state


def run(options: argparse.Namespace) -> None:
    paths = options.inputs
    if options.last is not None:
        if options.last < 1 or len(paths) != 1:
            raise ValueError("--last N (N >= 1) takes one folder")
        paths = last_checkpoints(paths[0], options.last)
    state = average(paths)
    if options.frozen is not None:
        put_back(state, options.frozen)
    shrink(state, options.half)
    with replacing(options.output, "wb", make_folder=True) as stream:
        torch.save(state, stream)
    size = options.output.stat().st_size
    logger.info("%s: average of %d checkpoints, %d bytes", options.output, len(paths), size)


def main(arguments: Sequence[str]) -> int:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    parser = argparse.ArgumentParser(description=__doc__)
    inputs = "checkpoints, or one folder (with --last)"
    parser.add_argument("inputs", nargs="+", type=pathlib.Path, help=inputs)
    parser.add_argument("--last", type=int, metavar="N", help="take the N newest of the folder")
    parser.add_argument("--output", type=pathlib.Path, required=True, help="checkpoint to write")
    parser.add_argument("--half", action="store_true", help="store parameters in fp16")
    frozen = "checkpoint of the part that was not trained: its parameters are put back unrounded"
    parser.add_argument("--frozen", type=pathlib.Path, metavar="FILE", help=frozen)
    try:
        run(parser.parse_args(arguments))
    except (OSError, ValueError) as error:
        logger.error("average_checkpoints: %s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
