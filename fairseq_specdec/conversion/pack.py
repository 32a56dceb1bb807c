"""``specdec-convert pack``: a checkpoint whose weights are packed for this processor."""

import argparse
import logging
import os
from typing import Any

import torch
from fairseq.models.multilingual_transformer import MultilingualTransformerModel
from torch import nn

from fairseq_specdec.checkpoints.content import UNTRAINED, check_file, read_state
from fairseq_specdec.checkpoints.decoding_memory import only_to_decode
from fairseq_specdec.checkpoints.reading import load_checkpoint, weights_mapped
from fairseq_specdec.checkpoints.verifier import Decoding, load_models, placeholders
from fairseq_specdec.decoding.builder import check_verifier
from fairseq_specdec.engine.backend import NativeBackend, choose_backend
from fairseq_specdec.engine.devices import PACKED
from fairseq_specdec.engine.memory import packed_source
from fairseq_specdec.engine.native.library import load, why_not
from fairseq_specdec.engine.native.packed_file import KEY, packed
from fairseq_specdec.engine.transformer import Verifier
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.atomic import check_new_file, replacing
from fairseq_specdec.io.flag_values import add_flag

logger = logging.getLogger(__name__)

_KEPT = ("args", "cfg", "extra_state")  # of a checkpoint; the rest is for training


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of ``specdec-convert pack``."""
    parser.set_defaults(run=main)
    parser.add_argument("input", help="checkpoint of a verifier")
    parser.add_argument("output", help="packed checkpoint to write; its folder must exist")
    add_flag(parser, "--verifier-dtype", "precision, as in decoding", PACKED, "fp32",
             "fp32, which keeps all bits")  # fmt: skip
    add_flag(parser, "--twin", "format of a second copy of the decoder, which drafts for greedy "
             "decoding; it takes half as much more", ("int8",), otherwise="no copy")  # fmt: skip
    add_flag(parser, "--force", "replace OUTPUT if it is there", default=False)


def main(args: argparse.Namespace) -> None:
    check_file("input", args.input)
    check_new_file(args.output, "output", args.force)
    if os.path.exists(args.output) and os.path.samefile(args.input, args.output):
        raise UsageError("output", f"{args.output} is the input", "name another file")
    if args.twin and args.verifier_dtype in ("int8", "int7"):
        raise UsageError("--twin int8", "the verifier has 8 bits already", "leave it out")
    if load() is None:
        raise UsageError("packing needs the native engine", why_not())
    model = _model(args.input)
    backend = choose_backend("native", [model], args.verifier_dtype, frees=True, twin=args.twin)
    assert isinstance(backend, NativeBackend)
    Verifier([model], backend=backend)
    content = packed(model, backend.library, args.verifier_dtype)
    # As saved: what fairseq's loader adds to the settings is no plain value.
    with weights_mapped():
        saved = load_checkpoint(args.input)
    kept = {name: saved.get(name) for name in _KEPT}
    kept.update(optimizer_history=UNTRAINED["optimizer_history"])
    kept.update({"model": _left(model, saved["model"]), KEY: content})
    with replacing(args.output, "wb") as stream:
        torch.save(kept, stream)
    logger.info("%s: packed in %s for %s", args.output, args.verifier_dtype, content["variant"])


def _model(path: str) -> Any:
    """The verifier of a checkpoint, with its weights in the file."""
    with only_to_decode():
        state = read_state("input", path)
        task = Decoding(*placeholders(state["model"]))
        (model,), _ = load_models("input", [path], task, state=state)
    if isinstance(model, MultilingualTransformerModel):
        raise UsageError("input", f"{path} has a model for each language pair", "pack those of one")
    check_verifier(model, f"input: {path}")
    return model.eval()


def _left(model: nn.Module, saved: dict[str, Any]) -> dict[str, Any]:
    """What of a model's state is not packed; as it was saved, where it was saved."""
    own = model.state_dict(keep_vars=True)
    left = {name: value.detach() for name, value in own.items() if packed_source(value) is None}
    return {name: saved.get(name, value) for name, value in left.items()}
