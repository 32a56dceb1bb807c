"""Files that are not what they seem are refused in one line; sound ones are read as by torch."""

import argparse
import collections
import io
import pickle
import struct
import warnings
import zipfile

import numpy as np
import pytest
import torch
from checkpoint_samples import samples
from pickle_assembly import (
    FLOATS,
    HEADER,
    call,
    dict_of,
    ended,
    legacy,
    named,
    plain,
    storage,
    tensor,
    text,
    zipped,
)
from pickle_payloads import runs

from fairseq_specdec.compat import unpickling_objects
from fairseq_specdec.compat.checkpoints import load_checkpoint
from fairseq_specdec.compat.unpickling import _STEPS
from fairseq_specdec.compat.unpickling_files import _objects

SOUND = ended(dict_of(w=tensor(storage())))
OLD = ended(dict_of(w=tensor(storage(more=pickle.NONE))))
COUNT = (4).to_bytes(8, "little")
DATA = ("archive/data/0", FLOATS)


def refused(data, message="."):
    with pytest.raises(pickle.UnpicklingError, match=message) as caught:
        load_checkpoint(io.BytesIO(data))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300
    return str(caught.value)


def rewritten(edit, compression=zipfile.ZIP_STORED):
    """The sound file with its list of (name, data) edited."""
    out = io.BytesIO()
    entries = [("archive/data.pkl", SOUND), DATA]
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", compression) as target:
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, data in edit(entries):
            target.writestr(name, data)
    return out.getvalue()


ZIPS = {
    "no pickle": (lambda e: e[1:], "0 pickles"),
    "a pickle deeper": (lambda e: [("archive/a/data.pkl", SOUND), e[1]], "0 pickles"),
    "a pickle at the top": (lambda e: [("data.pkl", SOUND), e[1]], "0 pickles"),
    "two pickles": (lambda e: [*e, ("other/data.pkl", SOUND)], "2 pickles"),
    "one pickle twice": (lambda e: [e[0], *e], "same name"),
    "one storage twice": (lambda e: [("archive/data/0", bytes(10**4)), *e], "same name"),
    "one storage twice, after": (lambda e: [*e, ("archive/data/0", bytes(10**4))], "same name"),
    # libraries differ in whether a name in capitals is another
    "one storage twice, in capitals": (lambda e: [*e, ("archive/DATA/0", b"x")], "same name"),
    "no storage": (lambda e: e[:1], "lacks a record, '0'"),
    "a storage elsewhere": (lambda e: [e[0], ("other/data/0", FLOATS)], "lacks a record, '0'"),
    "a shorter storage": (lambda e: [e[0], (e[1][0], FLOATS[:-1])], "16 bytes and holds 15"),
    "a longer storage": (lambda e: [e[0], (e[1][0], FLOATS + b"x")], "16 bytes and holds 17"),
    "a program": (lambda e: [*e, ("archive/constants.pkl", b"x")], "TorchScript"),
    "a big-endian machine": (lambda e: [*e, ("archive/byteorder", b"big")], "big-endian"),
    "a zip within": (
        lambda e: [("archive/data.pkl", zipped(SOUND)), ("archive/data/0", zipped(SOUND))],
        "instruction",
    ),
}


@pytest.mark.parametrize("name", sorted(ZIPS))
def test_zip_files_that_are_not_what_they_seem_are_refused(name):
    assert load_checkpoint(io.BytesIO(rewritten(lambda e: e)))["w"].tolist() == [1, 2, 3, 4]
    edit, message = ZIPS[name]
    refused(rewritten(edit), message)


def test_compressed_encrypted_and_overlapping_records_are_refused():
    refused(rewritten(lambda e: e, zipfile.ZIP_DEFLATED), "compressed or encrypted")
    data = bytearray(zipped(SOUND))
    directory = data.index(b"PK\x01\x02")
    flagged = bytes(data[: directory + 8]) + b"\x01" + bytes(data[directory + 9 :])
    refused(flagged, "compressed or encrypted")
    size = struct.pack("<I", len(data) + 1)
    larger = bytes(data[: directory + 20]) + size * 2 + bytes(data[directory + 28 :])
    refused(larger, "overlap")


def test_a_record_that_was_changed_is_refused():
    data = zipped(SOUND)
    assert data.count(FLOATS) == 1
    refused(data.replace(FLOATS, FLOATS[::-1]), "CRC")


def test_a_damaged_zip_file_is_reported_in_one_short_line():
    """zipfile quotes a name of as many bytes as the damaged length says."""
    data = bytearray(zipped(ended(plain({"a": "x" * 5000}))))
    data[26:28] = struct.pack("<H", 5000)  # of the first record's name
    message = refused(bytes(data), "no sound zip file")
    assert message.isprintable()


def test_a_zip_behind_a_pickle_is_no_zip(tmp_path):
    """The first bytes say what a file is, for one reader as for another."""
    canary = tmp_path / "canary"
    hostile = runs(str(canary))["REDUCE"]
    old = legacy(ended(dict_of()))
    assert load_checkpoint(io.BytesIO(old + zipped(hostile))) == {}
    refused(hostile + zipped(SOUND))
    assert not canary.exists()


LEGACIES = {
    "another number": legacy(OLD, ["0"], COUNT + FLOATS, {0: pickle.dumps(HEADER[0] + 1, 2)}),
    "another protocol": legacy(OLD, ["0"], COUNT + FLOATS, {1: pickle.dumps(1000, 2)}),
    "a big-endian machine": legacy(
        OLD, ["0"], COUNT + FLOATS, {2: pickle.dumps({"little_endian": False}, 2)}
    ),
    "no machine": legacy(OLD, ["0"], COUNT + FLOATS, {2: pickle.dumps(None, 2)}),
    "no keys": legacy(OLD, [], COUNT + FLOATS),
    "other keys": legacy(OLD, ["1"], COUNT + FLOATS),
    "more keys": legacy(OLD, ["0", "1"], COUNT + FLOATS),
    "a key twice": legacy(OLD, ["0", "0"], (COUNT + FLOATS) * 2),
    "keys in a tuple": legacy(OLD, pickle.dumps(("0",), 2), COUNT + FLOATS),
    "keys of numbers": legacy(OLD, [0], COUNT + FLOATS),
    "another count": legacy(OLD, ["0"], (5).to_bytes(8, "little") + FLOATS + FLOATS),
    "a negative count": legacy(OLD, ["0"], b"\xff" * 8 + FLOATS),
    "no count": legacy(OLD, ["0"], b"\x04"),
    "a shorter storage": legacy(OLD, ["0"], COUNT + FLOATS[:-1]),
    "a view of a storage": legacy(
        ended(tensor(storage(more=call(named("collections", "OrderedDict"))))), ["0"],
        COUNT + FLOATS,
    ),
    "a storage among the keys": legacy(
        OLD, ended(storage(key="1", more=pickle.NONE)), COUNT + FLOATS
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(LEGACIES))
def test_old_files_that_are_not_what_they_seem_are_refused(name):
    assert load_checkpoint(io.BytesIO(legacy(OLD, ["0"], COUNT + FLOATS)))["w"].sum() == 10
    refused(LEGACIES[name])


def test_old_files_hold_no_more_than_their_size():
    """Many storages, each smaller than the file: memory is asked for before they are read."""
    kinds = {"count": 1000, "more": pickle.NONE}
    many = [tensor(storage(key=str(i), **kinds)) for i in range(1000)]
    data = legacy(ended(pickle.MARK + b"".join(many) + pickle.TUPLE))
    assert 4000 < len(data) < 4000 * 1000
    refused(data, "4000 bytes and holds")


class Watched(io.BytesIO):
    """A file that knows the most bytes it was asked for at once."""

    most = 0

    def read(self, size=-1):
        self.most = max(self.most, size)
        return super().read(size)


def test_no_more_is_asked_for_than_there_is():
    """A file may be asked for 4 GiB by five bytes, for which some readers find room first."""
    data = legacy(ended(pickle.BINUNICODE + b"\xff\xff\xff\xff" + b"x" * 600))
    stream = Watched(data)
    with pytest.raises(pickle.UnpicklingError, match="too early"):
        load_checkpoint(stream)
    assert stream.most <= len(data)


def test_text_and_numbers_are_no_files():
    for data in (b"", b"PK\x03\x04", b"hello\n" * 100, bytes(1000), b"PK\x05\x06" + bytes(18)):
        refused(data)


def module():
    """Parameters, tied and sliced tensors of every type, and what stands beside them."""
    base = torch.arange(12.0).reshape(3, 4)
    state = collections.OrderedDict(w=base, tied=base, row=base[1], turned=base.t())
    state["part"] = base[:, 1:]
    state._metadata = collections.OrderedDict({"": {"version": 2}})
    kinds = unpickling_objects._DTYPES.values()
    types = {str(kind): torch.tensor([0, 1, 1], dtype=kind) for kind in kinds}
    parameter = torch.nn.Parameter(torch.ones(2, 2), requires_grad=False)
    counts = {"i": np.arange(4), "f": np.ones((2, 3), order="F"), "none": np.zeros(0), "b": b""}
    counts["bool"], counts["swapped"] = np.array([True, False]), np.arange(3, dtype=">i4")
    numbers = [0, -1, 255, 65535, 2**31, -(2**80), 0.1, float("inf"), True, None, "é\udc80", ()]
    return {
        "model": state, "types": types, "parameter": parameter, "empty": torch.empty(0, 3),
        "scalar": torch.tensor(2.5), "counts": counts, "numbers": numbers,
        "announced": [torch.Size([2, 3]), torch.device("cpu"), torch.device("cuda", 1), *kinds],
        "nested": (1, (2, (3, 4))), "args": argparse.Namespace(lr=[0.1]),
        "grad": torch.ones(2, requires_grad=True),
        "seen": collections.defaultdict(list, {1: [2]}), "long": ["x" * 70_000] * 300,
    }  # fmt: skip


@pytest.mark.parametrize("zipped_layout", [True, False])
def test_what_torch_saves_is_read_as_torch_reads_it(zipped_layout):
    stream = io.BytesIO()
    torch.save(module(), stream, _use_new_zipfile_serialization=zipped_layout)
    stream.seek(0)
    ours = load_checkpoint(stream)
    stream.seek(0)
    unchecked = {"weights_only": False} if torch.__version__ >= (2, 0) else {}
    theirs = torch.load(stream, **unchecked)
    equal(ours, theirs)
    assert ours["model"]._metadata == theirs["model"]._metadata
    ours["model"]["w"].zero_()
    assert ours["model"]["row"].sum() == 0  # they share memory, as they did


def equal(ours, theirs):
    assert type(ours) is type(theirs)
    if isinstance(ours, torch.Tensor):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        assert ours.stride() == theirs.stride()
        assert torch.equal(ours, theirs) and ours.requires_grad == theirs.requires_grad
        assert ours.storage_offset() == theirs.storage_offset() and not ours._is_view()
    elif isinstance(ours, np.ndarray):
        assert ours.dtype == theirs.dtype and np.array_equal(ours, theirs)
        assert ours.flags["F_CONTIGUOUS"] == theirs.flags["F_CONTIGUOUS"]
    elif isinstance(ours, dict):
        assert list(ours) == list(theirs)
        for key in ours:
            equal(ours[key], theirs[key])
    elif isinstance(ours, (list, tuple)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs):
            equal(one, other)
    else:
        assert ours == theirs


def test_no_entry_of_the_tables_is_without_need(monkeypatch):
    """Ablation: without any one instruction or name, a sound checkpoint is no longer read."""
    stream = io.BytesIO()
    torch.save(module(), stream)
    made = [stream.getvalue(), *samples().values()]
    assert all(map(loads, made))
    tables = [_objects()._values, _objects()._calls, _objects()._classes, _STEPS]
    tables.append(_objects()._states)
    needless = []
    for table in tables:
        for name in list(table):
            with monkeypatch.context() as without:
                without.delitem(table, name)
                if all(map(loads, made)):
                    needless.append(name)
    assert needless == []


def loads(data):
    try:
        load_checkpoint(io.BytesIO(data))
    except pickle.UnpicklingError:
        return False
    return True


def test_bytes_of_a_boolean_storage_are_made_zero_or_one():
    made = tensor(storage(kind="BoolStorage"))
    data = zipped(ended(made), [("archive/data/0", b"\x00\x01\x02\xff")])
    values = load_checkpoint(io.BytesIO(data))
    assert values.view(torch.uint8).tolist() == [0, 1, 1, 1]


def test_tables_hold_known_instructions_and_objects_only():
    """A new entry of a table needs its payloads above, and a review."""
    names = "".join(sorted(code.decode("latin1") for code in _STEPS))
    assert names == "".join(sorted("\x80N\x88\x89JKM\x8aGX)]}(t\x85\x86\x87aesuqrhjcR\x81bQ"))
    assert sorted(_objects()._calls) == [
        "__builtin__.bytes", "_codecs.encode", "collections.OrderedDict", "collections.defaultdict",
        "numpy._core.multiarray._reconstruct", "numpy._core.multiarray.scalar",
        "numpy.core.multiarray._reconstruct", "numpy.core.multiarray.scalar", "numpy.dtype",
        "torch.Size", "torch._utils._rebuild_parameter", "torch._utils._rebuild_tensor_v2",
        "torch.device",
    ]  # fmt: skip
    assert len(_objects()._classes) == 10


def test_the_name_of_the_refused_thing_is_shown():
    refused(zipped(ended(call(named("posix", "system"), text("true")))), "names posix.system")
    refused(zipped(ended(pickle.EMPTY_SET)), "instruction")
