"""Distilling over a Ray cluster: the files of one process, whatever dies."""

import os
import signal

import pytest
from distilled import KEEP, same_corpus

from fairseq_specdec.data import cluster

ray = pytest.importorskip("ray", reason="needs the extra ray")
CHUNK = 3  # of 13


@pytest.fixture(scope="module")
def shared():
    """A cluster of three cores, started once."""
    local = ray.init(num_cpus=3, include_dashboard=False, _node_ip_address="127.0.0.1")
    yield local.address_info["gcs_address"]
    ray.shutdown()


@pytest.fixture
def on_cluster(distill, tmp_path, shared, monkeypatch):
    """Distil over the shared cluster; the test ends it, not the command."""
    monkeypatch.setattr(ray, "shutdown", lambda: None)

    def run(*flags):
        distill(*KEEP, "--ray", shared, *flags)
        return tmp_path / "out"

    return run


def test_workers_leave_the_files_of_one_process(on_cluster, undisturbed):
    assert same_corpus(on_cluster("--ray-workers", 3), undisturbed)


def dying(mark, times):
    """A worker that is killed in its first calls for CHUNK."""

    class Dying(cluster.Worker):
        def decode(self, chunk, batches):
            dead = len(os.listdir(mark))
            if chunk == CHUNK and dead < times:
                open(os.path.join(mark, str(dead)), "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().decode(chunk, batches)

    return Dying


@pytest.fixture
def mark(tmp_path):
    (tmp_path / "deaths").mkdir()
    return tmp_path / "deaths"


def test_the_chunk_of_a_worker_that_dies_is_decoded_again(
    on_cluster, undisturbed, mark, monkeypatch
):
    monkeypatch.setattr(cluster, "Worker", dying(mark, 1))
    assert same_corpus(on_cluster("--ray-workers", 1), undisturbed) and len(os.listdir(mark)) == 1


@pytest.mark.parametrize(
    "folder, digest, message",
    [
        ("/nonexistent", None, r"/nonexistent.*; every machine needs the corpus and the checkpoi"),
        (None, "0", r"on \S+ the corpus or a checkpoint is another than the driver's"),
    ],
)
def test_a_machine_with_other_files_is_named(on_cluster, monkeypatch, folder, digest, message):
    class Elsewhere(cluster.Worker):
        def __init__(self, args, here, mine):
            super().__init__(args, folder or here, digest or mine)

    monkeypatch.setattr(cluster, "Worker", Elsewhere)
    with pytest.raises(ValueError, match=message):
        on_cluster("--ray-workers", 1)


@pytest.mark.parametrize("address", ["ray://127.0.0.1:1", "somewhere:x"])
def test_no_cluster_at_the_address(distill, address):
    with pytest.raises(ValueError, match=f"--ray {address}: no cluster answers .*ray start"):
        distill(*KEEP, "--ray", address)
