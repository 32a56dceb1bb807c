"""What is recorded of a result's origin: commits, versions, hashes, machine."""

import hashlib
import platform
import subprocess
import sys
from importlib import metadata

import torch

import fairseq_specdec
from fairseq_specdec.io import provenance


def test_a_digest_depends_on_all_bytes_or_values_and_not_on_the_order_of_keys(tmp_path):
    content = bytes(range(251)) * 9000
    (tmp_path / "file").write_bytes(content)
    assert provenance.sha256(tmp_path / "file") == hashlib.sha256(content).hexdigest()
    one = provenance.digest_of({"a": 1, "b": [2, 3]})
    assert one == provenance.digest_of({"b": [2, 3], "a": 1}) and len(one) == 64
    assert one != provenance.digest_of({"a": 1, "b": [3, 2]})


def test_a_commit_is_named_in_full_with_a_mark_for_changes(tmp_path, monkeypatch):
    """Of a repository of one commit with a tag; "unknown" outside a checkout of its own."""

    def git(*words):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        command = ["git", "-C", str(tmp_path), *identity, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    (tmp_path / "file").write_text("1\n")
    git("add", "file")
    git("commit", "-q", "-m", "first")
    git("tag", "-a", "v1", "-m", "v1")
    head = git("rev-parse", "HEAD")
    assert provenance.commit(str(tmp_path)) == head
    (tmp_path / "file").write_text("2\n")
    assert provenance.commit(str(tmp_path)) == head + "-dirty"
    inside = tmp_path / "site-packages"
    inside.mkdir()
    assert provenance.commit(str(inside)) == "unknown"  # another project's
    (inside / ".git").write_text("gitdir: /nowhere\n")
    assert provenance.commit(str(inside)) == "unknown"
    monkeypatch.setenv("PATH", str(inside))
    assert provenance.commit(str(tmp_path)) == "unknown"


def test_versions_are_of_what_runs(monkeypatch):
    versions = provenance.versions(["torch", "fairseq_specdec", "no_such_package", "tqdm"])
    assert versions == {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "fairseq_specdec": fairseq_specdec.__version__,
        "tqdm": metadata.version("tqdm"),
    }
    monkeypatch.setattr(torch, "__version__", "0.0.1")
    assert provenance.versions(["torch"])["torch"] == "0.0.1"
    monkeypatch.delitem(sys.modules, "torch")
    assert provenance.versions(["torch"])["torch"] == metadata.version("torch")
