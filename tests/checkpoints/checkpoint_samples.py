"""Checkpoints as fairseq has written them, of every kind and release, in bytes."""

import argparse
import collections
import io
import zipfile

import numpy as np
import torch
from fairseq.distributed import utils as distributed_utils
from fairseq.logging import meters
from omegaconf import DictConfig
from settings_payloads import config_of

from fairseq_specdec.checkpoints.reading import load_checkpoint


def saved(content, **kwargs):
    buffer = io.BytesIO()
    torch.save(content, buffer, **kwargs)
    return buffer.getvalue()


def load(data):
    return load_checkpoint(io.BytesIO(data))


def renamed(data, old, new):
    """The checkpoint with one module name replaced, as another release would have written it."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w") as target:
        for entry in source.infolist():
            content = source.read(entry)
            if entry.filename.endswith("data.pkl"):
                assert b"c" + old + b"\n" in content
                content = content.replace(b"c" + old + b"\n", b"c" + new + b"\n")
            target.writestr(entry.filename, content)
    return out.getvalue()


def samples():
    """One checkpoint of each kind, in bytes, by name."""
    namespace = argparse.Namespace(arch="transformer", lr=[0.1])
    model = argparse.Namespace(arch="transformer", layers=2)
    config = config_of({"task": {"lr": [0.1, 0.2]}, "name": None, "model": model})
    numbers = {"best": np.float64(0.5), "epoch": np.int32(3), "whole": np.bool_(True)}
    array = saved({"extra_state": {"metrics": {"_bleu_counts": np.arange(4)}, **numbers}})
    core = b"numpy._core.multiarray" if b"numpy._core" in array else b"numpy.core.multiarray"
    made = {
        "command line": saved({"args": namespace, "cfg": {"task": {"lr": [1.0]}}}),
        "eval-bleu, numpy 1": renamed(array, core, b"numpy.core.multiarray"),
        "eval-bleu, numpy 2": renamed(array, core, b"numpy._core.multiarray"),
        "config object": saved({"args": None, "cfg": config}),
        "config of integers": saved({"cfg": DictConfig({}, element_type=int)}),
        "several processes": saved(
            distributed_utils._split_tensors_from_obj(
                {"model": {"w": torch.ones(2)}, "seen": collections.defaultdict(dict)}, []
            )
        ),
    }
    for name in ("AverageMeter", "TimeMeter", "StopwatchMeter"):
        meter = saved({"train_meters": {"loss": getattr(meters, name)()}})
        made["fairseq 0.9, " + name] = renamed(meter, b"fairseq.logging.meters", b"fairseq.meters")
    return made
