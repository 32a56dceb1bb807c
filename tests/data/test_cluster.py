"""Distilling over a Ray cluster: the files of one process, whatever dies."""

import os
import signal
import subprocess
import sys
import time

import pytest

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
def on_cluster(distill, reversal_data, teacher, tmp_path, shared, monkeypatch, toy):
    """Distil over the shared cluster; the test ends it, not the command."""
    monkeypatch.setattr(ray, "shutdown", lambda: None)

    def run(*flags):
        distill(reversal_data, tmp_path / "out", teacher, *toy.keep, "--ray", shared, *flags)
        return tmp_path / "out"

    return run


def test_workers_leave_the_files_of_one_process(on_cluster, undisturbed, same_corpus):
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
    on_cluster, undisturbed, mark, monkeypatch, same_corpus
):
    monkeypatch.setattr(cluster, "Worker", dying(mark, 1))
    assert same_corpus(on_cluster("--ray-workers", 1), undisturbed) and len(os.listdir(mark)) == 1


def test_a_chunk_that_ends_every_worker_ends_the_command_and_the_rest_is_kept(
    on_cluster, undisturbed, mark, monkeypatch, distill, reversal_data, teacher, tmp_path,
    same_corpus, toy,
):  # fmt: skip
    monkeypatch.setattr(cluster, "Worker", dying(mark, 99))
    monkeypatch.setattr(cluster, "RETRIES", 1)
    with pytest.raises(ray.exceptions.RayError):
        on_cluster("--ray-workers", 1)
    kept = sorted(path.name for path in (tmp_path / "out.parts").rglob("chunk-*"))
    assert [name.split("-")[1] for name in kept] == [f"{chunk:06d}" for chunk in range(CHUNK)]
    distill(reversal_data, tmp_path / "out", teacher, *toy.keep)  # goes on without a cluster
    assert same_corpus(tmp_path / "out", undisturbed)


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


def test_a_killed_driver_goes_on(
    reversal_data, teacher, undisturbed, tmp_path, distill, same_corpus, toy
):
    words = [reversal_data, "--path", teacher, "--dest", tmp_path / "out", "--num-workers", 0]
    words += [*toy.keep, "--ray", "--ray-workers", 1]
    command = [sys.executable, "-m", "fairseq_specdec.data.distill", *map(str, words)]
    parts = tmp_path / "out.parts"
    with open(tmp_path / "log", "w") as log, subprocess.Popen(command, stderr=log) as driver:
        while not list(parts.rglob("chunk-*.npz")) and driver.poll() is None:
            time.sleep(0.02)
        driver.kill()
    assert driver.returncode == -signal.SIGKILL, (tmp_path / "log").read_text()
    assert list(parts.rglob("chunk-*.npz"))
    distill(reversal_data, tmp_path / "out", teacher, *toy.keep)
    assert same_corpus(tmp_path / "out", undisturbed)


@pytest.mark.parametrize("address", ["ray://127.0.0.1:1", "somewhere:x"])
def test_no_cluster_at_the_address(distill, reversal_data, teacher, tmp_path, address, toy):
    with pytest.raises(ValueError, match=f"--ray {address}: no cluster answers .*ray start"):
        distill(reversal_data, tmp_path / "out", teacher, *toy.keep, "--ray", address)
