"""Checkpoints by grammar are read to plain values or refused in a line; nothing is run."""

import argparse
import collections
import io
import pickle
import resource
import struct
import sys
import time
import typing

import numpy as np
import omegaconf
import pytest
import torch
from fairseq.logging import meters
from pickle_assembly import ended, legacy, zipped
from pickle_grammar import Grammar

from fairseq_specdec.checkpoints.reading import load_checked, load_checkpoint
from fairseq_specdec.checkpoints.settings import RefusedCheckpointError
from fairseq_specdec.checkpoints.structure import check_structure
from fairseq_specdec.compat.unpickling_objects import Named, Storage, StorageKind

PLAIN = (
    type(None), bool, int, float, str, bytes, torch.Tensor, torch.nn.Parameter, torch.Size,
    torch.device, torch.dtype, np.ndarray, Named, StorageKind, Storage,
)  # fmt: skip
TYPES = (typing.Any, dict, list, int)
METERS = (meters.AverageMeter, meters.TimeMeter, meters.StopwatchMeter)
NODES = (omegaconf.DictConfig, omegaconf.ListConfig, omegaconf.AnyNode)
METADATA = (omegaconf.base.Metadata, omegaconf.base.ContainerMetadata)  # of nodes; fields, no more
CONTAINERS = (list, tuple, dict, collections.OrderedDict, collections.defaultdict)
WATCHED = ("import", "exec", "compile", "open", "os.", "subprocess.", "socket.", "ctypes.")
SECONDS, MEGABYTES = 5, 500


class Watch:
    """What the process does while a file is read: imports, programs, files."""

    def __init__(self):
        self.on, self.seen = False, []
        sys.addaudithook(self._note)

    def _note(self, event, arguments):
        if self.on and event.startswith(WATCHED):
            self.seen.append((event, arguments))

    def __enter__(self):
        self.on = True

    def __exit__(self, *_):
        self.on = False


@pytest.fixture(scope="module")
def watch():
    return Watch()


def checkpoint(random):
    """A file: its pickle by grammar, at times damaged; then its bytes, at times damaged."""
    old = random.random() < 0.4
    wrong = random.choice((0, 0, 0.02, 0.1, 0.3))
    grammar = Grammar(random, old, wrong)
    depth = random.randint(0, 4)
    body = grammar.state(depth) if random.random() < 0.8 else grammar.part(depth)
    storages = grammar.storages
    if old:
        keys = list(storages)
        contents = b"".join(
            struct.pack("<q", count) + content for count, content in storages.values()
        )
        data = legacy(ended(body), keys, contents)
    else:
        records = [(f"archive/data/{key}", content) for key, (_, content) in storages.items()]
        data = zipped(ended(body), records)
    if random.random() < wrong:
        at = random.randrange(len(data))
        data = random.choice((
            data[:at], data[:at] + bytes([random.randrange(256)]) + data[at + 1 :],
            data[:at] + struct.pack("<I", random.choice((0, 2**16, 2**32 - 1))) + data[at + 4 :],
            data[:at] + data[at + random.randint(1, 8) :],
        ))  # fmt: skip
    return data


def check_plain(value, nodes):
    """Every object of a checkpoint is of a type that does nothing; tensors can be read."""
    left, seen = [value], {}
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        kind = type(value)
        if kind in CONTAINERS:
            left += value.values() if isinstance(value, dict) else value
            left += vars(value).values() if kind is collections.OrderedDict else ()
        elif kind is argparse.Namespace or kind in METERS or kind in nodes:
            left += vars(value).values()
        else:
            known = kind in PLAIN or isinstance(value, np.dtype)
            assert known or any(value is each for each in TYPES), value
        if isinstance(value, torch.Tensor):
            assert value.clone().numel() < 100
        elif kind is np.ndarray:
            assert value.tobytes() is not None and value.dtype.kind in "biuf"


@pytest.mark.parametrize("reader", ["load_checkpoint", "load_checked"])
def test_pickles(reader, fuzz, watch):
    """``load_checked`` reads what one process of a training sends to another."""
    main = reader == "load_checkpoint"
    read = load_checkpoint if main else load_checked
    read(io.BytesIO(zipped(ended(pickle.NONE), [])))  # imports what the reader itself needs
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed in fuzz.seeds():
        data = checkpoint(fuzz.random(seed))
        started, watch.seen[:] = time.process_time(), []
        try:
            with watch:
                state = read(io.BytesIO(data))
                if main:
                    check_structure(state, "a.pt")
        except (pickle.UnpicklingError, RefusedCheckpointError) as error:
            message = str(error)
            assert message and len(message) < 600 and message.isprintable(), (seed, message)
            fuzz.counts["refused"] += 1
        else:
            check_plain(state, () if main else METADATA + NODES)
            fuzz.counts["read"] += 1
        assert not watch.seen, (seed, watch.seen)
        assert time.process_time() - started < SECONDS, seed
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < MEGABYTES * 1024, (seed, grown)
