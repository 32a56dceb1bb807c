"""Hostile pickles do harm where nothing checks; in a checkpoint each is refused in one line."""

import copyreg
import io
import os
import pickle
import subprocess
import sys
import warnings

import numpy as np
import omegaconf
import pickle_oddities as oddities
import pickle_payloads as payloads
import pytest
import torch
from omegaconf import OmegaConf
from omegaconf.basecontainer import BaseContainer
from pickle_assembly import FLOATS, dict_of, ended, legacy, named, tensor, text, zipped
from pickle_assembly import storage as stored

from fairseq_specdec.compat.checkpoints import load_checkpoint
from fairseq_specdec.compat.unpickling import Unpickler
from fairseq_specdec.compat.unpickling_objects import Objects

RUNS = sorted(payloads.runs(""))
CHANGES = sorted(payloads.changes())
OBJECTS = {**oddities.odd_objects(), **oddities.odd_configs()}
PICKLES = oddities.odd_pickles()
STORAGES = sorted(oddities.odd_storages())
# torch's storages, and the reference to them, in both layouts
MORE = {"zip": b"", "legacy": pickle.NONE}


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Extension codes of os.mkdir, and an interpolation that makes folders."""
    for code in payloads.EXTENSION.values():
        monkeypatch.setitem(copyreg._inverted_registry, code, ("posix", "mkdir"))
    getattr(OmegaConf, "register_new_resolver", OmegaConf.register_resolver)("canary", os.mkdir)
    yield
    BaseContainer._resolvers.pop("canary")
    for code in payloads.EXTENSION.values():
        copyreg._extension_cache.pop(code, None)


class Unchecked(pickle._Unpickler):
    """Python's own unpickler, which notes what it was asked to load from elsewhere."""

    def persistent_load(self, key):
        payloads.Adder.seen.append(key)


def read_unchecked(data):
    """Read a pickle as ``pickle.load`` does; whether the harm is done is asked afterwards."""
    try:
        Unchecked(io.BytesIO(data), encoding="utf-8").load()
    except Exception as error:  # many do harm first and fail after
        return error
    return None


def refused(data):
    """The one line with which a checkpoint is refused."""
    with pytest.raises(pickle.UnpicklingError) as caught:
        load_checkpoint(io.BytesIO(data))
    message = str(caught.value)
    assert message and "\n" not in message and len(message) < 300, message
    return message


def in_layout(name, pickled, header=()):
    """A checkpoint with the storage of four floats, where the pickle refers to one."""
    if name == "zip":
        return zipped(pickled)
    if pickle.BINPERSID not in pickled:
        return legacy(pickled, header=header)
    return legacy(pickled, ["0"], (4).to_bytes(8, "little") + FLOATS, header)


def read_plain(data, limit=None, storage=None):
    """The object of a pickle by itself."""
    stream = io.BytesIO(data)
    value = Unpickler(stream, len(data) if limit is None else limit, Objects(), storage).load()
    assert stream.read() == b""
    return value


LISTED = [[number] for number in range(300)]
PLAIN = [
    *(None, True, False, 0, 255, 256, 65535, 65536, -1, 2**31 - 1, -(2**31), 2**40, -(2**70)),
    *(0.1, float("inf"), -2.5e300, "", "caf\xe9", "\ud800", "\U0001f600", "x" * 300),
    *((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), ((1, 2), (3, (4, 5, 6)))),
    *([], [1], [1, 2], [[]], {}, {"a": 1}, {"a": 1, 2: [3], 1.5: None, True: ()}),
    # Numbers of what was read before take one byte, and then four.
    [*LISTED, LISTED[3], LISTED[299]],
]


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: repr(value)[:20])
def test_plain_values_are_read(value):
    read = read_plain(pickle.dumps(value, 2))
    assert read == value and type(read) is type(value)


def test_what_is_the_same_stays_the_same():
    values = read_plain(pickle.dumps([*LISTED, LISTED[3], LISTED[299]], 2))
    assert values[300] is values[3] and values[301] is values[299]


def test_nothing_is_longer_than_the_file():
    data = ended(text("abcde"))
    assert read_plain(data, limit=5) == "abcde"
    with pytest.raises(pickle.UnpicklingError, match="^it ends too early$"):
        read_plain(data, limit=4)


def test_names_have_at_most_199_bytes():
    for size, message in ((199, "cannot|not|no "), (200, "a name without an end")):
        for name in (("m" * size, "n"), ("m", "n" * size)):
            with pytest.raises(pickle.UnpicklingError, match=message) as caught:
                read_plain(ended(named(*name)))
            assert ("without an end" in str(caught.value)) == (size == 200)


def test_names_are_shown_without_control_characters():
    with pytest.raises(pickle.UnpicklingError, match=r"names a\\x1b\[2J.b") as caught:
        read_plain(ended(named("a\x1b[2J", "b")))
    assert str(caught.value).isprintable()


def test_an_error_is_reported_in_a_line_of_at_most_200_characters():
    def storage(key):
        raise ValueError("ab\n " * 100)

    with pytest.raises(pickle.UnpicklingError) as caught:
        read_plain(ended(text("x") + pickle.BINPERSID), storage=storage)
    assert str(caught.value) == "ValueError: " + ("ab " * 100)[:200]


@pytest.mark.parametrize("layout", MORE)
def test_a_sound_checkpoint_is_read(layout):
    """The files below are refused for what is odd in them: with nothing odd they are read."""
    where = stored(more=MORE[layout])
    made = load_checkpoint(io.BytesIO(in_layout(layout, ended(dict_of(w=tensor(where))))))
    assert made["w"].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("name", RUNS)
def test_what_runs_code_elsewhere_is_refused(name, tmp_path):
    canary = tmp_path / "canary"
    data = payloads.runs(str(canary))[name]
    for layout in MORE:
        refused(in_layout(layout, data))
        assert not canary.exists()
    if name == "a config's metadata that resolves" and omegaconf.__version__ < "2.1":
        return  # it looks into no metadata as it is read
    error = read_unchecked(data)
    assert canary.exists(), error  # it does run where nothing checks


@pytest.mark.parametrize("place", range(3))
def test_each_pickle_of_the_old_layout_is_checked(place, tmp_path):
    """Number, protocol and machine come before the object; the storages' keys come after it."""
    canary = tmp_path / "canary"
    hostile = payloads.runs(str(canary))["REDUCE"]
    data = in_layout("legacy", ended(dict_of()), {place: hostile})
    refused(data)
    assert not canary.exists()
    read_with_torch(data)
    assert canary.exists()


def test_the_keys_of_the_old_layout_are_checked(tmp_path):
    canary = tmp_path / "canary"
    data = legacy(ended(dict_of()), payloads.runs(str(canary))["REDUCE"])
    refused(data)
    assert not canary.exists()
    read_with_torch(data)
    assert canary.exists()


def read_with_torch(data):
    """As torch reads by default before 2.6: unchecked."""
    unchecked = {"weights_only": False} if torch.__version__ >= (2, 0) else {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.load(io.BytesIO(data), **unchecked)
    except Exception as error:  # the harm is done first
        return error


@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_the_process_elsewhere_is_refused(name):
    data, changed = payloads.changes()[name]
    for layout in MORE:
        refused(in_layout(layout, data))
        assert not changed()
    error = read_unchecked(data)
    assert changed(), error


@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_objects_of_odd_parts_are_refused(name):
    by_us(refused(in_layout("zip", OBJECTS[name])))
    refused(in_layout("legacy", OBJECTS[name]))


def by_us(message):
    """Refused by a check of the reader, not by torch, numpy or Python after it had passed."""
    assert "Error: " not in message or "positional argument" in message, message


def test_sound_objects_of_the_same_parts_are_read():
    """The configs above are refused for what is odd in them."""
    for name, data in oddities.sound_configs().items():
        assert load_checkpoint(io.BytesIO(zipped(data))) is not None, name


@pytest.mark.parametrize("name", sorted(PICKLES))
def test_what_no_checkpoint_holds_is_refused(name):
    for layout in MORE:
        refused(in_layout(layout, PICKLES[name]))


@pytest.mark.parametrize("name", STORAGES)
@pytest.mark.parametrize("layout", MORE)
def test_storages_and_tensors_that_lie_are_refused(name, layout):
    by_us(refused(in_layout(layout, oddities.odd_storages(MORE[layout])[name])))


def test_an_array_of_objects_declared_as_numbers_is_read_as_numbers():
    """The flags of a dtype, which make numpy take numbers for addresses, are not taken over."""
    sound = payloads.array(of=payloads.dtype(state=("<", None, None, None, -1, -1, 63)))
    made = load_checkpoint(io.BytesIO(zipped(ended(sound))))
    assert made.dtype == np.int64 and not made.dtype.hasobject and made.tolist() == [0]
    refused(zipped(ended(payloads.object_array())))


def test_no_type_of_numpy_is_changed():
    """numpy keeps one object for each plain type; a file sets the byte order of copies only."""
    swapped = payloads.dtype(state=(">", None, None, None, -1, -1, 0))
    swapped = payloads.array(of=swapped, data=payloads.bytes_of((1).to_bytes(8, "big")))
    assert load_checkpoint(io.BytesIO(zipped(ended(swapped)))).tolist() == [1]
    assert np.dtype("i8").isnative


def test_memory_is_not_freed_under_a_tensor():
    refused(zipped(payloads.freed_array()))


def test_a_key_of_nested_tuples_does_not_end_the_process():
    refused(zipped(payloads.deep_key()))
    program = "import pickle, sys; pickle.load(sys.stdin.buffer)"
    done = subprocess.run([sys.executable, "-c", program], input=payloads.deep_key())
    assert done.returncode < 0  # it does elsewhere: killed by a signal


@pytest.mark.parametrize("layout", MORE)
def test_a_checkpoint_cut_anywhere_is_refused_in_one_line(layout):
    body = dict_of(a=payloads.array(), w=tensor(stored(more=MORE[layout])))
    whole = in_layout(layout, ended(body))
    for end in range(len(whole)):
        refused(whole[:end])


@pytest.mark.parametrize("layout", MORE)
def test_a_damaged_checkpoint_is_read_or_refused_in_one_line(layout):
    """Every byte replaced, in turn, by others: no other exception, and no crash."""
    body = dict_of(a=payloads.array(), n=payloads.new(payloads.NAMESPACE),
                   w=tensor(stored(more=MORE[layout])))  # fmt: skip
    whole = bytearray(in_layout(layout, ended(body)))
    for at in range(len(whole)):
        before = whole[at]
        for other in (0, 255, before ^ 1, before ^ 0x40):
            whole[at] = other
            try:
                load_checkpoint(io.BytesIO(bytes(whole)))
            except pickle.UnpicklingError as error:
                assert "\n" not in str(error)
        whole[at] = before
