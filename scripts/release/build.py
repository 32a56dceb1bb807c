"""Everything of a release, in ``dist``: what ``make release`` runs.

Usage: python scripts/release/build.py wheels|release

``wheels``: the source distribution, and from it a wheel for each of ``MACHINES`` with all variants
of the native engine, checked by auditwheel. ``release``: also the omegaconf wheel for old Pythons,
SHA256SUMS, twine's check. Needs ``pip install
.[release]`` (``make release``, which tests the wheels, ``.[release,dev]``) on Python 3.11 or
later; no compiler: zig (``zig_cxx.py``) is one.

SOURCE_DATE_EPOCH (default: the time of the last commit) stamps every file: the same sources give
the same bytes.
"""

import gzip
import hashlib
import importlib.util
import io
import json
import os
import pathlib
import runpy
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DIST = ROOT / "dist"
NATIVE = "fairseq_specdec/engine/native"
OLD_PYTHONS = ROOT / "requirements" / "wheels"
MACHINES = ("x86_64", "aarch64")  # that wheels are built for
TAG = "manylinux_2_28_{}"


class ReleaseError(Exception):
    """What was built is not what a release needs; the message has the reason."""


def run(*words, folder=ROOT, **variables):
    """Run a Python module or script; the words are its arguments."""
    done = subprocess.run(
        [sys.executable, *map(str, words)], cwd=str(folder), env={**os.environ, **variables},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    if done.returncode:
        raise ReleaseError(f"{' '.join(map(str, words))}:\n{done.stdout[-4000:]}")
    return done.stdout


def epoch():
    """The time that stamps all files, in seconds."""
    if "SOURCE_DATE_EPOCH" not in os.environ:
        command = ["git", "log", "-1", "--format=%ct"]
        return subprocess.check_output(command, cwd=str(ROOT), text=True).strip()
    return os.environ["SOURCE_DATE_EPOCH"]


def rewrite(path, seconds):
    """Pack a source distribution anew: sorted, of one time, of nobody, as setuptools does not."""
    packed = io.BytesIO()
    with (
        tarfile.open(path) as old,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda each: each.name):
            member.mtime, member.uid, member.gid = seconds, 0, 0
            member.uname = member.gname = ""
            member.pax_headers = {}
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    with path.open("wb") as stream, gzip.GzipFile("", "wb", 9, stream, mtime=seconds) as zipped:
        zipped.write(packed.getvalue())


def sdist(folder, seconds):
    """Build the source distribution; its path."""
    with tempfile.TemporaryDirectory() as temporary:
        # Apart, as setuptools adds whatever an earlier egg-info lists.
        run("setup.py", "-q", "egg_info", "-e", temporary, "sdist", "-d", folder)
    (path,) = folder.glob("*.tar.gz")
    rewrite(path, int(seconds))
    return path


def expected(machine):
    """File names of the native engine's objects in a wheel."""
    variants = runpy.run_path(str(ROOT / NATIVE / "variants.py"))
    files = {each.file for each in variants["VARIANTS"] if machine in each.machines}
    return {variants["PROBE"], *files}, variants["is_sealed"]


def wheel(source, machine, folder, seconds):
    """Build a wheel from the source distribution."""
    compiler = f"{sys.executable} {HERE / 'zig_cxx.py'} {machine}-linux-gnu.2.28"
    tag = TAG.format(machine)
    variables = {
        **dict.fromkeys(("CC", "CXX"), compiler),
        **dict.fromkeys(("LDSHARED", "LDCXXSHARED"), f"{compiler} -shared"),
        "_PYTHON_HOST_PLATFORM": f"linux-{machine}",
        "SOURCE_DATE_EPOCH": seconds,
    }
    with tempfile.TemporaryDirectory() as temporary:
        with tarfile.open(source) as archive:
            archive.extractall(temporary)
        (unpacked,) = pathlib.Path(temporary).iterdir()
        words = ("bdist_wheel", "--plat-name", tag, "-d", folder)
        run("setup.py", "-q", *words, folder=unpacked, **variables)
    (path,) = folder.glob(f"*-py3-none-{tag}.whl")
    check_wheel(path, machine)
    return path


def check_wheel(path, machine):
    """Whether a wheel has every variant, whole, and keeps to the policy of its tag."""
    names, is_sealed = expected(machine)
    with tempfile.TemporaryDirectory() as temporary, zipfile.ZipFile(path) as archive:
        there = {name for name in archive.namelist() if name.endswith(".so")}
        wrong = there ^ {f"{NATIVE}/{name}" for name in names}
        if wrong:
            raise ReleaseError(f"{path.name}: missing or too many: {', '.join(sorted(wrong))}")
        for name in there:
            if not is_sealed(pathlib.Path(archive.extract(name, temporary))):
                raise ReleaseError(f"{path.name}: {name} was altered after it was built")
    # The variants are for instruction sets beyond the tag's; the probe guards them.
    words = ("-m", "auditwheel", "show", "--json", "--disable-isa-ext-check", path)
    check_policy(json.loads(run(*words)), TAG.format(machine))


def check_policy(shown, tag):
    """Compare what auditwheel found with the tag that the wheel has. ``shown``: ``auditwheel show
    --json``. ``tag``: as manylinux_2_28_x86_64."""

    def release(name):
        return [int(part) for part in name.split("_")[1:3]]

    oldest = shown["overall_tag"]
    if not oldest.startswith("manylinux_") or release(oldest) > release(tag):
        raise ReleaseError(f"{shown['wheel']}: fits {oldest} only: {shown['versioned_symbols']}")
    if shown["external_libs"]:
        raise ReleaseError(f"{shown['wheel']}: needs {', '.join(shown['external_libs'])}")


def digests(folder):
    """Write SHA256SUMS, as sha256sum --check reads it."""
    files = sorted(path for path in folder.iterdir() if path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def wheels(folder):
    """Build the source distribution and all wheels into an empty folder."""
    for name in ("auditwheel", "ziglang"):  # without zig no object of the native engine is built
        if importlib.util.find_spec(name) is None:
            raise ReleaseError(f"{name} is not installed; pip install '.[release]'")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    seconds = epoch()
    source = sdist(folder, seconds)
    print(source.name)
    for machine in MACHINES:
        name = wheel(source, machine, folder, seconds).name
        print(f"{name}: auditwheel agrees", flush=True)


def release(folder):
    """Build all of a release; what is to be uploaded to an index is checked by twine."""
    wheels(folder)
    run("-m", "twine", "check", "--strict", *folder.iterdir())
    for path in OLD_PYTHONS.glob("*.whl"):
        shutil.copy(path, folder)
    digests(folder)
    print((folder / "SHA256SUMS").read_text(encoding="utf-8"), end="")


if __name__ == "__main__":
    if sys.version_info < (3, 11):
        sys.exit("build.py: error: on Python below 3.11 a wheel's metadata would name this folder")
    os.environ["SOURCE_DATE_EPOCH"] = epoch()  # one for all, whatever is committed meanwhile
    try:
        {"wheels": wheels, "release": release}[sys.argv[1]](DIST)
    except ReleaseError as error:
        sys.exit(f"build.py: error: {error}")
