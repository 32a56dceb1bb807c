"""The products on AArch64, emulated by QEMU (Debian: g++-aarch64-linux-gnu, qemu-user)."""

import pathlib
import shutil
import subprocess

import pytest

from fairseq_specdec.engine.native import library
from fairseq_specdec.engine.native.variants import FLAGS, VARIANTS

PROGRAM = pathlib.Path(__file__).with_name("cross") / "products.cpp"
COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
ARM = [each for each in VARIANTS if "aarch64" in each.machines]

needs_emulator = pytest.mark.skipif(
    not (shutil.which(COMPILER) and shutil.which(EMULATOR)),
    reason=f"{COMPILER} or {EMULATOR} is not installed",
)


@needs_emulator
@pytest.mark.parametrize("variant", ARM, ids=lambda each: each.name)
def test_products_agree_with_plain_loops(variant, tmp_path):
    program = tmp_path / "products"
    include = f"-I{library.FOLDER / 'src'}"
    command = [
        COMPILER,
        *FLAGS,
        "-Werror",
        *variant.flags,
        "-static",
        "-pthread",
        include,
        str(PROGRAM),
    ]
    subprocess.run([*command, "-o", str(program)], check=True)
    done = subprocess.run([EMULATOR, str(program)], stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (0, b"360 products agree, 0 do not\n")
