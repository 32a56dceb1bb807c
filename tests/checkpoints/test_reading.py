"""Hostile files do harm where nothing checks; here each is refused, or does nothing."""

import argparse
import collections
import contextlib
import io
import pickle
import re
import struct
import warnings
import zipfile

import hostile_pickles as payloads
import numpy as np
import pytest
import torch
from fairseq.distributed import utils as distributed_utils
from fairseq.logging import meters
from hostile_pickles import FLOATS, dict_of, ended, legacy, named, tensor, zipped
from hostile_pickles import storage as stored
from omegaconf import DictConfig
from settings_payloads import config_of

from fairseq_specdec.checkpoints.reading import load_checkpoint, load_pickle, weights_mapped
from fairseq_specdec.checkpoints.settings import RefusedCheckpointError
from fairseq_specdec.errors import UsageError

# torch's storages, and the reference to them, in both layouts
MORE = {"zip": b"", "legacy": pickle.NONE}
SOUND = ended(dict_of(w=tensor(stored())))


def saved(content, **kwargs):
    buffer = io.BytesIO()
    torch.save(content, buffer, **kwargs)
    return buffer.getvalue()


def load(data):
    return load_checkpoint(io.BytesIO(data))


def refused(data, message="."):
    with pytest.raises(RefusedCheckpointError, match=message) as caught:
        load_checkpoint(io.BytesIO(data) if isinstance(data, bytes) else data)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 400
    return str(caught.value)


def in_layout(name, pickled):
    """A checkpoint with the storage of four floats, where the pickle names one."""
    if name == "zip":
        return zipped(pickled)
    if named("torch", "FloatStorage") not in pickled:
        return legacy(pickled)
    return legacy(pickled, ["0"], (4).to_bytes(8, "little") + FLOATS)


@pytest.mark.parametrize("name", sorted(payloads.runs("")))
def test_what_runs_code_elsewhere_does_not_here(name, tmp_path):
    canary = tmp_path / "canary"
    data = payloads.runs(str(canary))[name]
    for layout in MORE:
        refused(in_layout(layout, data))
        assert not canary.exists()
    with contextlib.suppress(Exception):  # many do harm first and fail after
        pickle.loads(data, encoding="utf-8")
    assert canary.exists()  # it does run where nothing checks


@pytest.mark.parametrize("place", [0, 1, 2, "keys"])
def test_each_pickle_of_the_old_layout_is_checked(place, tmp_path):
    """Number, protocol and machine come before the object; the storages' keys come after it."""
    canary = tmp_path / "canary"
    hostile = payloads.runs(str(canary))["REDUCE"]
    body = ended(dict_of())
    data = legacy(body, hostile) if place == "keys" else legacy(body, header={place: hostile})
    refused(data, "names posix.mkdir, which no fairseq checkpoint holds")
    assert not canary.exists()


ODD = {
    (kind, name, layout): in_layout(layout, data)
    for layout, more in MORE.items()
    for kind, made in (
        ("objects", payloads.odd_objects()),
        ("storages", payloads.odd_storages(more)),
    )
    for name, data in made.items()
}


def memory_of(value):
    """Bytes of all tensors and arrays in a value, which are read here."""
    if isinstance(value, torch.Tensor):
        return len(bytes(str(value.detach().clone().flatten().tolist()), "ascii"))
    if isinstance(value, np.ndarray):
        assert value.dtype.kind in "biuf"
        return len(value.tobytes())
    values = value.values() if isinstance(value, dict) else value
    return sum(map(memory_of, values)) if isinstance(value, (dict, list, tuple)) else 0


@pytest.mark.parametrize("odd", ODD, ids=" ".join)
@pytest.mark.filterwarnings("ignore")
def test_what_no_checkpoint_holds_is_refused(odd, tmp_path):
    """Odd storages may be read, if nothing is read beyond the file: from memory and mapped."""
    (tmp_path / "odd.pt").write_bytes(ODD[odd])
    for file in (io.BytesIO(ODD[odd]), str(tmp_path / "odd.pt")):
        if odd[0] != "storages":
            refused(file)
            continue
        try:
            with weights_mapped():
                assert memory_of(load_checkpoint(file)) < 2000
        except RefusedCheckpointError as error:
            assert str(error).isprintable() and len(str(error)) < 500


def test_byte_order_and_flags_of_arrays_are_their_own():
    """Elsewhere a file has numbers taken for addresses."""
    flags, swapped = (
        payloads.array(
            of=payloads.dtype(state=(order, None, None, None, -1, -1, marks)),
            data=payloads.bytes_of((1).to_bytes(8, "big" if order == ">" else "little")),
        )
        for order, marks in (("<", 63), (">", 0))
    )
    assert load(zipped(ended(flags))) == load(zipped(ended(swapped))) == [1]
    assert np.dtype("i8").isnative and not load(zipped(ended(flags))).dtype.hasobject


def rewritten(edit, compression=zipfile.ZIP_STORED):
    """The sound file with its list of (name, data) edited."""
    out = io.BytesIO()
    entries = [("archive/data.pkl", SOUND), ("archive/data/0", FLOATS), ("archive/version", b"3")]
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", compression) as target:
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, data in edit(entries):
            target.writestr(name, data)
    return out.getvalue()


def patched(at, change):
    """The sound file with its first entry of the directory changed at a byte."""
    data = bytearray(zipped(SOUND))
    at += data.index(b"PK\x01\x02")
    data[at : at + len(change)] = change
    return bytes(data)


ONE = [("archive/data/0", bytes(10**4))]
FILES = {
    "no pickle": (rewritten(lambda e: e[1:]), "no pickle or several"),
    "two pickles": (rewritten(lambda e: [*e, ("other/data.pkl", SOUND)]), "no pickle or several"),
    "one storage twice": (rewritten(lambda e: [*e, *ONE]), "same name"),
    "compressed": (rewritten(lambda e: e, zipfile.ZIP_DEFLATED), "compressed or encrypted"),
    "encrypted": (patched(8, b"\x01"), "compressed or encrypted"),
    "overlapping": (patched(20, struct.pack("<I", 10**5) * 2), "overlap"),
    "a changed number": (zipped(SOUND).replace(FLOATS, FLOATS[::-1]), "cut off or damaged"),
    "another protocol": (zipped(ended(dict_of(), 4)), "its pickle protocol is 4"),
    "git's": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"),
    "the web's": (b"<!DOCTYPE html><html>", "a web page"),
    "empty": (b"", "is empty"),
    "a long name": (zipped(ended(named("a" * 9999, "b"))), r"\(it names a{50,300}\)"),
    "a name of a terminal": (zipped(ended(named("a\x1b[2J", "b"))), r"names a\\x1b\[2J.b"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_not_what_they_seem_are_named_with_the_remedy(name, tmp_path):
    assert load(zipped(SOUND))["w"].tolist() == [1, 2, 3, 4]
    path, (data, message) = tmp_path / "x.pt", FILES[name]
    path.write_bytes(data)
    for reading in (contextlib.nullcontext, weights_mapped):  # checked before it is mapped
        with reading(), pytest.raises(UsageError, match=f"^{re.escape(str(path))}: ") as caught:
            load_checkpoint(str(path))
        assert re.search(message, str(caught.value)) and str(caught.value).isprintable()
    with pytest.raises(FileNotFoundError, match="gone.pt"):
        load_checkpoint(str(tmp_path / "gone.pt"))


@pytest.mark.parametrize("layout", MORE)
@pytest.mark.filterwarnings("ignore")
def test_a_damaged_checkpoint_is_read_or_refused_in_one_line(layout):
    """Cut after each byte, and each byte replaced by others: no other exception, and no crash."""
    body = dict_of(a=payloads.array(), n=payloads.new(payloads.NAMESPACE),
                   w=tensor(stored(more=MORE[layout])))  # fmt: skip
    whole = in_layout(layout, ended(body))
    for end in range(1, len(whole), 3):
        refused(whole[:end])
    for at in range(0, len(whole), 2):
        for other in (0, 255, whole[at] ^ 1, whole[at] ^ 0x40):
            try:
                load(whole[:at] + bytes([other]) + whole[at + 1 :])
            except RefusedCheckpointError as error:
                assert str(error).isprintable()


def module():
    """A state of torch with all that is read of it, its memory shared as it was."""
    weight = torch.arange(6.0).reshape(2, 3)
    state = collections.OrderedDict(w=weight, row=weight[1], t=weight.t())
    state._metadata = {"": {"version": 2}}
    more = {str(d): torch.ones(2, 1, dtype=d) for d in (torch.half, torch.bfloat16, torch.bool)}
    whole = {"p": torch.nn.Parameter(weight.clone()), "size": torch.Size([1]), "bytes": b"\x00\xff"}
    args = argparse.Namespace(lr=[0.1, 2**70], text="caf\xe9", t=(1, (None, True), {2: []}))
    return {"model": state, "args": args, "more": [more, whole, torch.float16, b""]}


@pytest.mark.parametrize("zipped_layout", [True, False])
@pytest.mark.parametrize("reading", [weights_mapped, contextlib.nullcontext])
def test_sound_checkpoints_are_read_as_by_torch(zipped_layout, reading, tmp_path):
    path = str(tmp_path / "x.pt")
    torch.save(module(), path, _use_new_zipfile_serialization=zipped_layout)
    with reading():
        ours = load_pickle(path)
    theirs = torch.load(path, weights_only=False)
    assert str(ours) == str(theirs) and type(ours["model"]) is collections.OrderedDict
    assert ours["model"]._metadata == theirs["model"]._metadata
    ours["model"]["w"].zero_()
    assert ours["model"]["row"].sum() == 0  # they share memory, as they did
    assert str(torch.load(path, weights_only=False)) == str(theirs)  # and not the file's


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


@pytest.mark.parametrize("kind", sorted(samples()))
def test_checkpoints_of_every_release_are_read(kind):
    before = set(torch.serialization.get_safe_globals())
    state = load(samples()[kind])
    assert list(state) and set(torch.serialization.get_safe_globals()) == before
    if "numpy" in kind:
        state = state["extra_state"]
        assert (state["best"], state["epoch"], state["whole"]) == (0.5, 3, True)
        counts = state["metrics"]["_bleu_counts"]
        assert isinstance(counts, np.ndarray) and counts.dtype == np.int64
        assert counts.tolist() == [0, 1, 2, 3]
        assert b"fairseq_specdec" not in saved(state)
    elif kind == "config object":
        assert state["cfg"]["model"].layers == 2 and state["cfg"]["task"]["lr"] == [0.1, 0.2]


def test_names_that_climb_out_of_the_file_write_nothing(tmp_path):
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    climbing = [("archive/../../../climbed", b"x"), ("archive/data/../../climbed", b"x")]
    (inside / "c.pt").write_bytes(rewritten(lambda e: [*e, *climbing]))
    before = sorted(tmp_path.rglob("*"))
    load_checkpoint(inside / "c.pt")
    assert sorted(tmp_path.rglob("*")) == before
