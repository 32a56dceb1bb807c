"""What reads a checkpoint here reads it by ``load_checkpoint``: by the source, and by trial."""

import io
import re

import numpy as np
import pytest
import torch
from checkpoint_readers import PLUGIN, READERS, SCRIPTS
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from pickle_assembly import call, dict_of, dotted, ended, legacy, named, text, zipped

from fairseq_specdec.checkpoints.settings import RefusedCheckpointError

# Whatever else reads pickles, or YAML with objects.
UNSAFE = re.compile(
    r"\b(torch|pickle|yaml|joblib|dill|jit|np|numpy)\.(load|loads|load_all|unsafe_load|full_load)\b"
    r"(?!.*allow_pickle=False)|\b(_?Unpickler|marshal|shelve|cloudpickle|jsonpickle)\b"
    r"|(from|import) (pickle|torch\.serialization) import .*load|weights_only=False"
)


def test_no_source_reads_pickles_by_another_way():
    files = [*PLUGIN.rglob("*.py"), *SCRIPTS.rglob("*.py")]
    found = {}
    for path in files:
        lines = [line.split("#")[0] for line in path.read_text(encoding="utf-8").splitlines()]
        unsafe = [line for line in lines if UNSAFE.search(line) and "``" not in line]
        found.update({path: unsafe} if unsafe else {})
    (load,) = found.pop(PLUGIN / "checkpoints" / "reading.py")
    assert "torch.load(" in load and "weights_only=True" in load
    assert found == {}


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


@pytest.mark.parametrize("name", sorted(READERS))
def test_no_command_runs_what_a_checkpoint_names(name, hostile, refusal):
    """The layouts take turns: both are read by the same code everywhere."""
    turn = sorted(READERS).index(name) % 2
    text = refusal(name, hostile[turn])
    assert not hostile[2].exists()
    reason = ("names posix.mkdir", "protocol is 4")[turn]
    assert [line for line in text.splitlines() if reason in line], text[-3000:]


def test_fairseq_reads_by_this_reader_in_both_places(hostile):
    """It reads averaged weights of the EMA by a second call of torch.load."""
    for path, message in zip(hostile, ("no fairseq checkpoint holds", "protocol is 4")):
        with pytest.raises(RefusedCheckpointError, match=message):
            checkpoint_utils.load_checkpoint_to_cpu(str(path))
        with pytest.raises(RefusedCheckpointError, match=message):
            checkpoint_utils.load_ema_from_checkpoint(str(path))
    assert not hostile[2].exists()


def test_a_checkpoint_with_arrays_passes_from_process_to_process():
    """fairseq reads what rank 0 sends by torch.load, which refuses numpy's arrays."""
    sent = io.BytesIO()
    torch.save({"counts": np.arange(3)}, sent)
    sent.seek(0)
    got = distributed_utils.torch.load(sent, map_location="cpu")
    assert got["counts"].tolist() == [0, 1, 2]
