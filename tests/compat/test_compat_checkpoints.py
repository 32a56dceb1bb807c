"""fairseq's checkpoints load; a checkpoint that wants to run code runs none."""

import io
import pickle
import tarfile
import zipfile

import numpy as np
import pytest
import torch
from checkpoint_samples import load, samples, saved

from fairseq_specdec.compat.checkpoints import checkpoint_types, load_checkpoint


@pytest.mark.parametrize("kind", sorted(samples()))
@pytest.mark.parametrize("zipped", [True, False])
def test_both_layouts_are_read(kind, zipped, tmp_path):
    data = samples()[kind]
    if not zipped and "numpy" not in kind and "0.9" not in kind:
        data = saved(load(data), _use_new_zipfile_serialization=False)
    assert list(load(data))


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


def test_loaded_values_are_those_saved():
    made = samples()
    assert load(made["command line"])["args"].lr == [0.1]
    for kind in ("eval-bleu, numpy 1", "eval-bleu, numpy 2"):
        state = load(made[kind])["extra_state"]
        assert (state["best"], state["epoch"], state["whole"]) == (0.5, 3, True)
        counts = state["metrics"]["_bleu_counts"]
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
