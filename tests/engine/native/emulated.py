"""Runs the engine's tests on emulated AArch64, with an AArch64 Python, torch and native engine.

    python emulated.py [arguments of pytest]

Without arguments: ``TESTS``. Needs Debian's g++-aarch64-linux-gnu and qemu-user, apt-get, and
Cython here. The first call fetches Debian's Python, and from PyPI a wheel for each package here
that has compiled parts (150 MB); they stay in SPECDEC_AARCH64 (default:
~/.cache/fairseq_specdec/aarch64). Packages without such parts are those of this environment. QEMU
takes some thirty times as long as a processor: torch and fairseq are imported in 40 s.
"""

import importlib.metadata
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
TESTS = (
    *(f"tests/engine/native/test_{name}.py" for name in ("products", "decoder", "native_linear")),
    "tests/decoding/test_native_chains.py",
)
TOOLS = ("aarch64-linux-gnu-g++", "qemu-aarch64", "apt-get", "dpkg")
PYTHON = "3.11"  # Debian 12's
DEBIAN = """
    python3.11 python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libc6 libgcc-s1
    libstdc++6 zlib1g libssl3 libffi8 libexpat1 libsqlite3-0 libbz2-1.0 liblzma5 libuuid1
    libncursesw6 libtinfo6 libreadline8 libdb5.3 libcrypt1 libnsl2 libtirpc3 libgomp1 media-types
""".split()
TORCH = "torch==2.6.0"
# Its wheels have no AArch64, and nothing else that is compiled is needed of it.
FAIRSEQ, EXTENSIONS = "fairseq==0.12.2", ("data_utils_fast", "token_block_utils_fast")


def run(*words, **more):
    """A command that has to succeed."""
    subprocess.run(list(map(str, words)), check=True, **more)


def debian(folder):
    """Unpack Debian's Python and its libraries for AArch64."""
    lists, packages = folder / "lists", folder / "debs"
    (lists / "partial").mkdir(parents=True)
    packages.mkdir()
    options = ["APT::Architecture=arm64", "APT::Architectures=arm64", f"Dir::State::Lists={lists}"]
    apt = ["apt-get", "-qq", *(f"-o{each}" for each in (*options, "Dir::State::status=/dev/null"))]
    run(*apt, "update")
    run(*apt, "download", *DEBIAN, cwd=packages)
    for package in packages.glob("*.deb"):
        run("dpkg", "-x", package, folder / "root")


def compiled():
    """name==version of the installed packages that have compiled parts, fairseq and torch apart."""
    for each in importlib.metadata.distributions():
        name = each.metadata["Name"]
        if any(str(path).endswith(".so") for path in each.files or ()):
            if not name.startswith(("torch", "nvidia", "fairseq", "ve-fairseq")):
                yield f"{name}=={each.version}"


def wheels(folder):
    """Unpack wheels for AArch64; a package that has none is named, and left out."""
    site, files = folder / "site", folder / "wheels"
    platforms = [f"--platform=manylinux_2_{n}_aarch64" for n in (17, 24, 27, 28)]
    choice = ["--no-deps", "--only-binary=:all:", f"--python-version={PYTHON}", *platforms]
    pip = [sys.executable, "-m", "pip", "download", "-q", "--platform=manylinux2014_aarch64"]
    for each in (TORCH, *sorted(compiled())):
        done = subprocess.run([*pip, *choice, "-d", str(files), each], stderr=subprocess.DEVNULL)
        if done.returncode:
            sys.stdout.write(f"{each}: no wheel for AArch64, left out\n")
    for wheel in files.glob("*.whl"):
        shutil.unpack_archive(str(wheel), str(site), "zip")


def fairseq(folder):
    """This environment's fairseq with its extensions for AArch64, from the sources of a release."""
    import fairseq as installed

    site = folder / "site"
    shutil.copytree(str(pathlib.Path(installed.__file__).parent), str(site / "fairseq"))
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-build-isolation"]
    run(*pip, "--no-binary=:all:", "-d", folder / "sources", FAIRSEQ)
    (archive,) = (folder / "sources").glob("*.tar.gz")
    with tarfile.open(archive) as sources:
        for name in EXTENSIONS:
            member = f"{archive.name[: -len('.tar.gz')]}/fairseq/data/{name}.pyx"
            (site / "fairseq/data" / f"{name}.pyx").write_bytes(sources.extractfile(member).read())
    include = [f"-I{sysconfig.get_paths()['include']}", f"-I{site}/numpy/_core/include"]
    for name in EXTENSIONS:
        where = site / "fairseq/data"
        cython = [sys.executable, "-m", "cython", "--cplus", "-3"]
        run(*cython, f"{name}.pyx", "-o", f"{name}.cpp", cwd=where)
        target = f"{name}.cpython-311-aarch64-linux-gnu.so"
        flags = ["-O1", "-w", "-shared", "-fPIC"]
        run(TOOLS[0], *flags, *include, f"{name}.cpp", "-o", target, cwd=where)


def checkout(folder):
    """A copy of the tree, with the native engine for AArch64."""
    tree = folder / "tree"
    shutil.rmtree(str(tree), ignore_errors=True)
    left_out = shutil.ignore_patterns(".*", "build", "*.so", "*.egg-info")
    shutil.copytree(str(ROOT), str(tree), ignore=left_out)
    compiler = TOOLS[0]
    cross = dict.fromkeys(("CC", "CXX"), compiler)
    cross.update(dict.fromkeys(("LDSHARED", "LDCXXSHARED"), f"{compiler} -shared"))
    cross["_PYTHON_HOST_PLATFORM"] = "linux-aarch64"
    words = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    run(*words, cwd=tree, env={**os.environ, **cross})
    return tree


def main():
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        sys.stdout.write(f"no tests on emulated AArch64: {', '.join(missing)} not installed\n")
        return 0
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = pathlib.Path(os.environ.get("SPECDEC_AARCH64") or f"{cache}/fairseq_specdec/aarch64")
    complete = folder / f"complete-{TORCH}"
    if not complete.exists():
        shutil.rmtree(str(folder), ignore_errors=True)
        folder.mkdir(parents=True)
        for step in (debian, wheels, fairseq):
            step(folder)
        complete.touch()
    tree = checkout(folder)
    root, here = folder / "root", [each for each in sys.path if each.endswith("site-packages")]
    own = tree, tree / "tests", tree / "tests/engine/native"
    places = os.pathsep.join(map(str, (*own, folder / "site", *here)))
    words = ["qemu-aarch64", "-cpu", "max", "-L", root, root / f"usr/bin/python{PYTHON}"]
    words += "-m pytest -q -p toys_of_torch -p no:cacheprovider --timeout=3000".split()
    environment = {
        **os.environ,
        "CXX": TOOLS[0],  # for what tests compile
        "PYTHONPATH": places,
        "PYTHONDONTWRITEBYTECODE": "1",
        "SPECDEC_TOYS_TORCH": importlib.metadata.version("torch"),
    }
    chosen = sys.argv[1:] or TESTS
    return subprocess.run([*map(str, words), *chosen], cwd=tree, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
