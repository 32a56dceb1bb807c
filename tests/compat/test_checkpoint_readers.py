"""What reads a checkpoint here reads it by ``load_checkpoint``: by the source, and by trial."""

import ast
import io
import pickle

import numpy as np
import pytest
import torch
from checkpoint_readers import PLUGIN, READERS, SCRIPTS, refusal_there
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from pickle_assembly import call, dict_of, dotted, ended, legacy, named, text, zipped

UNSAFE_MODULES = {"marshal", "shelve", "dill", "joblib", "cloudpickle", "_pickle", "jsonpickle"}
LOADERS = {"load", "loads", "Unpickler", "_Unpickler", "load_module", "load_state_dict_from_url"}


def unsafe(source):
    """What in a file reads pickles by another way, as 'line: what'."""
    calls = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name in UNSAFE_MODULES]
        elif isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names if alias.name in LOADERS]
            unpickles = node.module in UNSAFE_MODULES | {"pickle", "torch", "torch.serialization"}
            names = names if unpickles else []
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner, name = node.value.id, node.attr
            names = []
            if owner in ("torch", "pickle") and name in LOADERS:
                names = [f"{owner}.{name}"]
            elif owner == "yaml" and name in ("load", "load_all", "unsafe_load", "full_load"):
                names = [f"yaml.{name}"]
            elif owner == "torch" and name in ("hub", "package"):
                names = [f"torch.{name}"]
        elif isinstance(node, ast.Attribute) and node.attr == "load":
            names = ["jit.load"] if getattr(node.value, "attr", "") in ("jit", "export") else []
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "load":
            continue
        else:
            names = []
        calls += [f"{node.lineno}: {name}" for name in names]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.keyword) and node.arg in ("weights_only", "allow_pickle"):
            value = getattr(node.value, "value", None)
            if value is not (node.arg == "weights_only"):
                calls.append(f"{node.arg}={value}")
        if is_numpy_load(node) and "allow_pickle" not in {word.arg for word in node.keywords}:
            calls.append(f"{node.lineno}: numpy.load without allow_pickle=False")
    return calls


def is_numpy_load(node):
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    owner = getattr(node.func.value, "id", "")
    return node.func.attr == "load" and owner in ("np", "numpy")


def test_no_source_reads_pickles_by_another_way():
    files = [*PLUGIN.rglob("*.py"), *SCRIPTS.rglob("*.py")]
    assert len(files) > 200
    unsafe_calls = {str(path): unsafe(path.read_text(encoding="utf-8")) for path in files}
    assert {path: what for path, what in unsafe_calls.items() if what} == {}


@pytest.fixture
def hostile(tmp_path):
    """A checkpoint of each layout, and the folder that they would make."""
    canary = tmp_path / "canary"
    one, two = tmp_path / "zip.pt", tmp_path / "legacy.pt"
    body = dict_of(model=call(named("posix", "mkdir"), text(str(canary))))
    one.write_bytes(zipped(ended(body)))
    body = dict_of(args=call(dotted("posix", "mkdir"), text(str(canary))))
    two.write_bytes(legacy(ended(body, 4)))
    return one, two, canary


# In a Python of their own.
NEW = ("fairseq-generate", "the hub")


@pytest.mark.parametrize("name", sorted(READERS))
def test_no_command_runs_what_a_checkpoint_names(name, hostile, trained, tmp_path, refusal):
    """The layouts take turns: both are read by the same code everywhere."""
    turn = sorted(READERS).index(name) % 2
    if name in NEW:
        text = refusal_there(name, hostile[turn], trained, tmp_path)
    else:
        text = refusal(name, hostile[turn])
    assert not hostile[2].exists()
    reason = ("names posix.mkdir", "protocol is 4")[turn]
    assert [line for line in text.splitlines() if reason in line], text[-3000:]


def test_fairseq_reads_by_this_reader_in_both_places(hostile):
    """It reads averaged weights of the EMA by a second call of torch.load."""
    for path, message in zip(hostile, ("no fairseq checkpoint holds", "protocol is 4")):
        with pytest.raises(pickle.UnpicklingError, match=message):
            checkpoint_utils.load_checkpoint_to_cpu(str(path))
        with pytest.raises(pickle.UnpicklingError, match=message):
            checkpoint_utils.load_ema_from_checkpoint(str(path))
    assert not hostile[2].exists()


@pytest.mark.skipif(torch.__version__ < (2, 6), reason="torch refuses nothing by default")
def test_a_checkpoint_with_arrays_passes_from_process_to_process():
    """fairseq reads what rank 0 sends by torch.load, which refuses numpy's arrays."""
    sent = io.BytesIO()
    torch.save({"counts": np.arange(3)}, sent)
    sent.seek(0)
    got = distributed_utils.torch.load(sent, map_location="cpu")
    assert got["counts"].tolist() == [0, 1, 2]
