"""What makes a release: flags of the cross compiler, the policy, reproducible files."""

import importlib
import io
import tarfile

import pytest
import zig_cxx

build = importlib.import_module("build")  # the name of PyPA's tool, too
FITS = {"wheel": "a.whl", "overall_tag": "manylinux_2_17_x86_64", "external_libs": {}}
TAG = "manylinux_2_28_x86_64"


def test_every_instruction_set_is_known_to_zig():
    variants = importlib.import_module("fairseq_specdec.engine.native.variants").VARIANTS
    for each in variants:
        for flag in each.flags:
            known = flag in zig_cxx.INSTRUCTION_SETS or not flag.startswith("-march=")
            assert known, f"{each.name}: {flag}"
    words = zig_cxx.command("x86_64-linux-gnu.2.28", ["-march=x86-64-v3", "-O3", "-shared"])
    assert words[1:] == [
        *("-m", "ziglang", "c++", "-target", "x86_64-linux-gnu.2.28"),
        *("-march=x86_64_v3", "-O3", "-shared", "-s"),
    ]


def test_the_policy_of_a_wheels_tag():
    build.check_policy(FITS, TAG)
    build.check_policy({**FITS, "overall_tag": TAG}, TAG)
    newer = {**FITS, "overall_tag": "manylinux_2_35_x86_64", "versioned_symbols": {"libc.so.6": []}}
    with pytest.raises(build.ReleaseError, match="a.whl: fits manylinux_2_35"):
        build.check_policy(newer, TAG)
    with pytest.raises(build.ReleaseError, match="fits linux_x86_64 only"):
        build.check_policy({**newer, "overall_tag": "linux_x86_64"}, TAG)
    with pytest.raises(build.ReleaseError, match="needs libstdc"):
        build.check_policy({**FITS, "external_libs": {"libstdc++.so.6": None}}, TAG)


def packed(path, names, seconds):
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.uname = len(name), seconds, f"user{seconds}"
            archive.addfile(member, io.BytesIO(name.encode()))
    return path


def test_the_same_sources_give_the_same_bytes(tmp_path):
    one = packed(tmp_path / "one.tar.gz", ["a/x", "a/y"], 1)
    two = packed(tmp_path / "two.tar.gz", ["a/y", "a/x"], 2)
    assert one.read_bytes() != two.read_bytes()
    build.rewrite(one, 5)
    build.rewrite(two, 5)
    assert one.read_bytes() == two.read_bytes()
    with tarfile.open(one) as archive:
        assert archive.getnames() == ["a/x", "a/y"]
        assert archive.extractfile("a/y").read() == b"a/y"


def test_what_is_missing_is_named_before_anything_is_built(monkeypatch, tmp_path):
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(build.ReleaseError, match="auditwheel is not installed"):
        build.release(tmp_path / "dist")
    assert not (tmp_path / "dist").exists()
