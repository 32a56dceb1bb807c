"""Processors that are emulated by QEMU: the products on AArch64, the probe on old and new ones.

Debian's packages are g++-aarch64-linux-gnu and qemu-user. SPECDEC_AARCH64_WHEEL names a wheel whose
objects are to be loaded.
"""

import os
import pathlib
import shutil
import subprocess
import zipfile

import pytest

from fairseq_specdec.engine.native import library
from fairseq_specdec.engine.native.variants import FLAGS, PROBE, VARIANTS, digest
from fairseq_specdec.version import __version__

CROSS = pathlib.Path(__file__).with_name("cross")
ARM = [each for each in VARIANTS if "aarch64" in each.machines]
COMPILERS = {"aarch64": "aarch64-linux-gnu-g++", "x86_64": "x86_64-linux-gnu-g++"}

# Each with the variants that it can run. QEMU knows no AVX-512.
PROCESSORS = [
    ("x86_64", "Nehalem", []),
    ("x86_64", "SandyBridge", []),  # AVX without AVX2
    ("x86_64", "Haswell", ["x86_64_v3"]),
    ("aarch64", "cortex-a53", ["aarch64"]),
    ("aarch64", "neoverse-n1", ["aarch64", "aarch64_dotprod"]),
]


def needs(*tools):
    """Skip the test, by name, where one of the tools is missing."""
    for tool in tools:
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")


def run_emulated(machine, processor, source, folder, *flags):
    """Compile and run a program; what it returns and prints."""
    emulator = f"qemu-{machine}"
    needs(COMPILERS[machine], emulator)
    command = [COMPILERS[machine], *FLAGS, "-Werror", *flags, "-static", "-pthread"]
    sources = [f"-I{library.FOLDER / 'src'}", str(CROSS / source)]
    program = folder / "program"
    subprocess.run([*command, *sources, "-o", str(program)], check=True)
    done = subprocess.run([emulator, "-cpu", processor, str(program)], stdout=subprocess.PIPE)
    return done.returncode, done.stdout.decode()


@pytest.mark.slow
@pytest.mark.parametrize("variant", ARM, ids=lambda each: each.name)
def test_products_agree_with_plain_loops(variant, tmp_path):
    answer = run_emulated("aarch64", "max", "products.cpp", tmp_path, *variant.flags)
    assert answer == (0, "600 products agree, 0 do not\n")


@pytest.mark.parametrize("machine, processor, expected", PROCESSORS, ids=lambda each: str(each))
def test_the_probe_allows_what_the_processor_has(machine, processor, expected, tmp_path):
    code, bits = run_emulated(machine, processor, "variants.cpp", tmp_path)
    names = [each.name for i, each in enumerate(VARIANTS) if int(bits) >> i & 1]
    assert (code, names) == (0, expected)


@pytest.mark.skipif("SPECDEC_AARCH64_WHEEL" not in os.environ, reason="no wheel; make release")
@pytest.mark.parametrize("variant", ARM, ids=lambda each: each.name)
def test_the_objects_of_a_wheel_load_and_multiply(variant, tmp_path):
    compiler, emulator = COMPILERS["aarch64"], "qemu-aarch64"
    needs(compiler, emulator)
    program, native = tmp_path / "program", "fairseq_specdec/engine/native"
    source = str(CROSS / "shared_object.cpp")
    subprocess.run([compiler, "-std=c++17", "-O1", source, "-o", str(program), "-ldl"], check=True)
    with zipfile.ZipFile(os.environ["SPECDEC_AARCH64_WHEEL"]) as wheel:
        objects = [wheel.extract(f"{native}/{name}", tmp_path) for name in (PROBE, variant.file)]
    command = [emulator, "-cpu", "max", "-L", "/usr/aarch64-linux-gnu", str(program), *objects]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    bits, stamp, agree = done.stdout.splitlines()
    assert all(int(bits) >> VARIANTS.index(each) & 1 for each in ARM)
    assert stamp == f"{__version__} {variant.name} {digest(library.FOLDER / 'src')}"
    assert agree == "60 of 60 products agree"
