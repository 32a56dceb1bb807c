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


def test_the_chunk_of_a_worker_that_dies_is_decoded_again(
    on_cluster, undisturbed, tmp_path, monkeypatch
):
    mark = tmp_path / "died"

    class Dying(cluster.Worker):
        def decode(self, chunk, batches):
            if chunk == CHUNK and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().decode(chunk, batches)

    monkeypatch.setattr(cluster, "Worker", Dying)
    assert same_corpus(on_cluster("--ray-workers", 1), undisturbed) and mark.exists()


def test_a_machine_with_other_files_is_named(on_cluster, monkeypatch):
    class Elsewhere(cluster.Worker):
        def __init__(self, args, folder, digest):
            super().__init__(args, folder, "another")

    monkeypatch.setattr(cluster, "Worker", Elsewhere)
    with pytest.raises(ValueError, match=r"on \S+ the corpus or a checkpoint is another than the"):
        on_cluster("--ray-workers", 1)


def test_no_cluster_at_the_address(distill):
    with pytest.raises(ValueError, match="--ray somewhere:x: no cluster answers .*ray start"):
        distill(*KEEP, "--ray", "somewhere:x")
