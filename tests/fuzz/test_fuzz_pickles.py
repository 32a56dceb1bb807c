"""Parts of sound and of hostile checkpoints are read to plain values or refused in a line."""

import argparse
import collections
import importlib
import io
import pickle
import pickletools
import resource
import struct
import sys
import time

import numpy as np
import pytest
import torch
from damage import damaged
from hostile_pickles import (
    FLOATS,
    bytes_of,
    ended,
    legacy,
    named,
    odd_objects,
    odd_storages,
    runs,
    sound,
    whole,
    zipped,
)  # fmt: skip

from fairseq_specdec.checkpoints import allowed
from fairseq_specdec.checkpoints.reading import load_checkpoint, load_pickle
from fairseq_specdec.checkpoints.settings import RefusedCheckpointError, check_structure

PLAIN = (
    type(None), bool, int, float, str, bytes, torch.Tensor, torch.nn.Parameter, torch.Size,
    torch.device, torch.dtype, np.ndarray, allowed.Node, allowed.Dtype, allowed.Array,
    torch.serialization.StorageType, torch.storage.TypedStorage, type, type(len),
    type(allowed._number),
)  # fmt: skip
CONTAINERS = (list, tuple, dict, set, collections.OrderedDict)
WATCHED = ("import", "exec", "compile", "open", "os.", "subprocess.", "socket.", "ctypes.")
SECONDS, MEGABYTES = 5, 500


class Watch:
    """What the process does while a file is read: imports, programs, files."""

    def __init__(self):
        self.on, self.seen = False, []
        sys.addaudithook(self._note)

    def _note(self, event, arguments):
        # Python imports an encoding of its own where text of a pickle names it.
        if self.on and event.startswith(WATCHED) and "encodings" not in repr(arguments):
            self.seen.append((event, arguments))

    def __enter__(self):
        self.on = True

    def __exit__(self, *_):
        self.on = False


@pytest.fixture(scope="module")
def watch():
    return Watch()


def instructions(pickled):
    """The instructions of a pickle, each with its argument."""
    starts = [at for _, _, at in pickletools.genops(pickled)]
    return [pickled[a:b] for a, b in zip(starts, [*starts[1:], len(pickled)])]


def corpus(more):
    """(sound pickles by their instructions, these and odd and hostile ones) of one layout."""
    tables = sound(more), odd_objects(), odd_storages(more), runs("/nonexistent/folder")
    made = [[instructions(each) for each in table.values()] for table in tables]
    return made[0], sum(made, [])


CORPUS = {old: corpus(pickle.NONE if old else b"") for old in (False, True)}
FOREIGN = [named(*each) for each in (
    ("posix", "system"), ("builtins", "eval"), ("this", "s"), ("", ""), ("torch", "load"),
    ("numpy", "memmap"), ("omegaconf.omegaconf", "OmegaConf.create"), ("a b", "\x1b[2J"),
)]  # fmt: skip
NUMBERS = (0, 1, -1, 255, 2**31 - 1, -(2**31), 2**40, 2**62, 2**63 - 1, 2**63, -(2**70))
SINGLE = [each.code.encode("latin1") for each in pickletools.opcodes]


def spliced(random, good, pickles):
    """A pickle with some instructions of others, of none, or twice."""
    made = list(random.choice(good if random.random() < 0.7 else pickles))
    for _ in range(random.choice((0, 1, 1, 2, 6))):
        other = random.choice(pickles)
        at, begin = random.randrange(len(made) + 1), random.randrange(len(other))
        run = other[begin : begin + random.choice((1, 1, 4, 30))]
        new = random.choice((
            run, [], made[at : at + 9] * 2, [whole(random.choice(NUMBERS))],
            [random.choice(FOREIGN)], [random.choice(SINGLE)],
        ))  # fmt: skip
        made[at : at + random.choice((0, 1, 4))] = new
    return b"".join(made)


def checkpoint(random):
    """A file of a spliced pickle; at times its bytes are damaged."""
    old = random.random() < 0.4
    pickled = spliced(random, *CORPUS[old])
    data = zipped(pickled)
    if old:
        data = legacy(pickled, ["0"], struct.pack("<q", 4) + FLOATS)
    return damaged(random, data) if random.random() < 0.15 else data


def check_plain(value, size):
    """Every object of a file of ``size`` bytes is of a type that does nothing; tensors can be read.

    A tensor may have more elements than its memory, with strides of 0.
    """
    left, seen = [value], {}
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        kind = type(value)
        if kind in CONTAINERS:
            left += value.values() if isinstance(value, dict) else value
        elif kind is argparse.Namespace or kind is allowed.Node:
            left += vars(value).values()
        else:
            assert isinstance(value, PLAIN), value
        if isinstance(value, torch.Tensor):
            assert value.untyped_storage().nbytes() <= size
            for at in (0, -1) if value.numel() else ():
                value[(at,) * value.dim()].item()
        elif kind is np.ndarray:
            assert value.tobytes() is not None and value.dtype.kind in "biuf"


@pytest.mark.parametrize("reader", ["load_checkpoint", "load_pickle"])
def test_pickles(reader, fuzz, watch):
    """``load_pickle`` reads what one process of a training sends to another."""
    main = reader == "load_checkpoint"
    read = load_checkpoint if main else load_pickle
    for layout in (zipped(ended(bytes_of(b"x")), []), legacy(ended(bytes_of(b"x")))):
        read(io.BytesIO(layout))  # imports what the reader itself needs
    importlib.import_module("torch._subclasses.schema_check_mode")  # which torch imports late
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed in fuzz.seeds():
        data = checkpoint(fuzz.random(seed))
        started, watch.seen[:] = time.process_time(), []
        try:
            with watch:
                state = read(io.BytesIO(data))
                if main:
                    check_structure(state, "a.pt")
        except RefusedCheckpointError as error:
            message = str(error)
            assert message and len(message) < 600 and message.isprintable(), (seed, message)
            fuzz.counts["refused"] += 1
        else:
            check_plain(state, len(data))
            fuzz.counts["read"] += 1
        assert not watch.seen, (seed, watch.seen)
        assert time.process_time() - started < SECONDS, seed
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < MEGABYTES * 1024, (seed, grown)
