"""fairseq's checkpoints load; a checkpoint that wants to run code runs none."""

import argparse
import collections
import io
import os
import pickle
import tarfile
import zipfile

import numpy as np
import pytest
import torch
from checkpoint_samples import load, samples, saved
from fairseq import checkpoint_utils
from omegaconf import DictConfig

import fairseq_specdec
from fairseq_specdec.compat.checkpoints import (
    checkpoint_types,
    load_checkpoint,
)


class Evil:
    """Pickles as a call of ``function`` with ``arguments``."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def attacks(canary):
    touch = f"touch {canary}"
    program = f"__import__('os').system({touch!r})"
    return {
        "os.system": Evil(os.system, touch),
        "eval": Evil(eval, program),
        "exec": Evil(exec, program),
        "class": Evil(Evil, os.system, touch),
        "getattr": Evil(getattr, np.ndarray, "dump"),
        "factory": Evil(collections.defaultdict, os.system),
        "pickle.loads": Evil(pickle.loads, pickle.dumps(Evil(os.system, touch))),
        "in a Namespace": argparse.Namespace(x=Evil(os.system, touch)),
        "in an array": np.array([Evil(os.system, touch)], dtype=object),
        "in a config": Evil(DictConfig, Evil(eval, program)),
    }


@pytest.mark.parametrize("attack", sorted(attacks("")))
@pytest.mark.parametrize("zipped", [True, False])
def test_a_hostile_checkpoint_runs_no_code(attack, zipped, tmp_path):
    canary, path = tmp_path / "canary", tmp_path / "checkpoint.pt"
    evil = attacks(canary)[attack]
    torch.save({"args": evil, "model": {}}, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(pickle.UnpicklingError):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))
    assert not canary.exists()


def test_the_attacks_work_when_nothing_checks(tmp_path):
    """The test above can fail: unchecked, the same file does run code."""
    canary, path = tmp_path / "canary", tmp_path / "checkpoint.pt"
    torch.save({"args": attacks(canary)["os.system"]}, path)
    torch.load(path, weights_only=False)
    assert canary.exists()


@pytest.mark.parametrize("kind", sorted(samples()))
@pytest.mark.parametrize("zipped", [True, False])
def test_both_layouts_are_read(kind, zipped, tmp_path):
    data = samples()[kind]
    if not zipped and "numpy" not in kind and "0.9" not in kind:
        data = saved(load(data), _use_new_zipfile_serialization=False)
    assert list(load(data))


OPCODES = {  # what no pickler writes, but a file may hold
    "the class itself is changed": b"cargparse\nNamespace\n(N}X\x01\x00\x00\x00aK\x01stb.",
    "an old-style instance": b"(iargparse\nNamespace\n.",
    "an object": b"(cargparse\nNamespace\no.",
    "an extension": b"\x82\x01.",
    "a text reference": b"Pos\n.",
    "a reference to no storage": b"X\x01\x00\x00\x00aQ.",
    "writing into an array": b"cnumpy\nndarray\n(K\x01\x85tRK\x00K\x01s.",
    "writing into a list": b"]K\x00a(K\x00K\x01u.",
    "a dotted name": b"\x80\x04\x8c\x08argparse\x8c\x0f_sys.modules.xx\x93.",
}


@pytest.mark.parametrize("what", OPCODES)
def test_instructions_that_no_checkpoint_needs_are_refused(what, tmp_path):
    data = zip_with_pickle(OPCODES[what])
    with pytest.raises(pickle.UnpicklingError):
        load(data)


def zip_with_pickle(content, edit=lambda pickled: pickled):
    """A checkpoint whose pickle is another, or what ``edit`` makes of it."""
    out, made = io.BytesIO(), saved({"model": {"w": torch.ones(4)}})
    with zipfile.ZipFile(io.BytesIO(made)) as source, zipfile.ZipFile(out, "w") as target:
        for entry in source.infolist():
            data = source.read(entry)
            if entry.filename.endswith("data.pkl"):
                data = edit(data) if content is None else content
            target.writestr(entry.filename, data)
    return out.getvalue()


def swell(pickled):
    """A gigabyte of floats where there are four."""
    four, many = b"K\x04", b"J" + (2**28).to_bytes(4, "little")
    at = pickled.index(four, pickled.index(b"cpu"))
    pickled = pickled[:at] + many + pickled[at + 2 :]
    at = pickled.index(four + b"\x85")
    return pickled[:at] + many + pickled[at + 2 :]


def test_a_tensor_larger_than_its_file_is_refused():
    data = zip_with_pickle(None, swell)
    with pytest.raises(pickle.UnpicklingError, match="1073741824 bytes and holds 16"):
        load(data)


def test_other_containers_are_refused(tmp_path):
    program, archive, bomb = (tmp_path / name for name in ("a.pt", "b.pt", "c.pt"))
    torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), str(program))
    with tarfile.open(str(archive), "w") as tar:
        tar.add(__file__, arcname="storages")
    with zipfile.ZipFile(str(bomb), "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr("archive/data.pkl", saved({}))
        target.writestr("archive/data/0", bytes(10**7))
    for path, message in ((program, "TorchScript"), (archive, "tar file"), (bomb, "compressed")):
        with pytest.raises(pickle.UnpicklingError, match=message):
            load_checkpoint(path)


def test_names_that_climb_out_of_the_file_write_nothing(tmp_path):
    """Records are read where they lie: nothing is unpacked, whatever they are called."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved({"model": {"w": torch.ones(4)}}))) as source:
        with zipfile.ZipFile(out, "w") as target:
            for entry in source.infolist():
                target.writestr(entry.filename, source.read(entry))
            target.writestr("archive/../../../climbed", b"x")
            target.writestr("archive/data/../../climbed", b"x")
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    (inside / "c.pt").write_bytes(out.getvalue())
    before = sorted(tmp_path.rglob("*"))
    load_checkpoint(inside / "c.pt")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_namespace_checkpoint_loads_through_fairseq(tmp_path):
    path = tmp_path / "checkpoint.pt"
    namespace = argparse.Namespace(
        arch="transformer", task="translation", data="x", criterion="cross_entropy", lr=[0.1]
    )
    history = [{"num_updates": 1, "optimizer_name": "Adam", "lr_scheduler_state": {}}]
    extra = {"train_iterator": {"epoch": 1}}
    torch.save(
        {
            "args": namespace,
            "cfg": None,
            "model": {"w": torch.ones(2)},
            "optimizer_history": history,
            "extra_state": extra,
        },
        path,
    )
    state = checkpoint_utils.load_checkpoint_to_cpu(str(path), {"data": "y"})
    assert state["cfg"].task.data == "y"
    assert state["model"]["w"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("kind", sorted(samples()))
def test_every_kind_of_checkpoint_loads(kind):
    state = load(samples()[kind])
    assert state and list(state) == list(dict(state))


def test_loaded_values_are_those_saved():
    made = samples()
    assert load(made["command line"])["args"].lr == [0.1]
    for kind in ("eval-bleu, numpy 1", "eval-bleu, numpy 2"):
        counts = load(made[kind])["extra_state"]["metrics"]["_bleu_counts"]
        assert counts.dtype == np.int64 and counts.tolist() == [0, 1, 2, 3]
    config = load(made["config object"])["cfg"]
    assert config["model"].layers == 2 and config["task"]["lr"] == [0.1, 0.2]


@pytest.mark.skipif(torch.__version__ < (2, 6), reason="torch has no list of its own")
def test_no_entry_of_the_list_is_without_need():
    """Ablation: without any one entry, torch.load no longer reads a checkpoint of some kind."""
    everything = checkpoint_types()
    before = torch.serialization.get_safe_globals()
    made = [data for kind, data in samples().items() if "numpy" not in kind]
    assert all(torch_loads(data) for data in made)
    needless = []
    try:
        for entry in everything:
            torch.serialization.clear_safe_globals()
            rest = [other for other in everything if other is not entry]
            torch.serialization.add_safe_globals(rest)
            if all(torch_loads(data) for data in made):
                needless.append(entry)
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(before)
    assert needless == []


@pytest.mark.skipif(torch.__version__ < (2, 6), reason="torch has no list of its own")
@pytest.mark.parametrize("numpy", ["1", "2"])
def test_numpys_names_are_not_allowed_to_torch(numpy):
    """Through them a file frees memory under a tensor (see test_unpickling)."""
    assert not torch_loads(samples()[f"eval-bleu, numpy {numpy}"])


def torch_loads(data):
    try:
        torch.load(io.BytesIO(data))
    except pickle.UnpicklingError:
        return False
    return True


def test_an_eval_bleu_checkpoint_resumes(fairseq_command, trained, tmp_path):
    """The real thing: fairseq-train reads back what fairseq-train wrote."""
    log, _ = fairseq_command(
        "train", *trained.arguments, "--restore-file", trained.checkpoint, "--save-dir", tmp_path,
        "--max-epoch", 2,
    )  # fmt: skip
    assert "Loaded checkpoint" in log and "epoch 002" in log


def test_the_eval_bleu_checkpoint_holds_arrays(trained):
    with zipfile.ZipFile(trained.checkpoint) as archive:
        name = next(n for n in archive.namelist() if n.endswith("data.pkl"))
        assert b"_reconstruct" in archive.read(name)


def test_the_plugin_never_switches_the_check_off():
    folder = fairseq_specdec.__path__[0]
    for base, _, files in os.walk(folder):
        for name in files:
            if name.endswith(".py"):
                with open(os.path.join(base, name), encoding="utf-8") as source:
                    assert "weights_only=False" not in source.read(), os.path.join(base, name)
