"""The native engine's tests with GCC's sanitizers: ``make sanitize``; with ``--fuzz`` its fuzzer.

The best variant for this processor is compiled with AddressSanitizer and UndefinedBehaviorSanitizer
into a copy of the package, and the tests run there; the thread pool runs by itself with
ThreadSanitizer. Whatever they find ends the run with their report.
"""

import ctypes
import os
import pathlib
import runpy
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

TESTS = pathlib.Path(__file__).resolve().parent
ROOT = TESTS.parents[2]
CALLS = [
    str(ROOT / "tests" / "decoding" / name)
    for name in ("test_native_chains.py", "test_beam.py", "test_parity.py")
]
FUZZER = ROOT / "tests" / "fuzz" / "test_fuzz_native.py"
NATIVE = pathlib.PurePath("fairseq_specdec") / "engine" / "native"
PACKAGE = runpy.run_path(str(ROOT / NATIVE / "variants.py"))
COMPILER = os.environ.get("CXX", "g++")
# What compiles the engine or is no matter of memory.
LEFT_OUT = ("test_build.py", "test_cross.py", "test_library.py", "test_memory.py")
# -O1 for the compiler's time: the kernels are large.
MEMORY = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-O1", "-g1")


def compile_object(source, output, *flags):
    command = [COMPILER, *PACKAGE["FLAGS"], "-fPIC", "-shared", "-pthread", *flags]
    subprocess.run([*command, str(source), "-o", str(output)], check=True)
    PACKAGE["seal"](output)


def build(native, *flags):
    """The probe as it is, and of the variants only the best for this processor, with ``flags``."""
    sources = native / "src"
    compile_object(sources / "cpu.cpp", native / PACKAGE["PROBE"])
    bits = ctypes.CDLL(str(native / PACKAGE["PROBE"])).specdec_variants()
    variant = [each for i, each in enumerate(PACKAGE["VARIANTS"]) if bits >> i & 1][-1]
    version = runpy.run_path(str(native.parents[1] / "version.py"))["__version__"]
    stamp = f"{version} {variant.name} {PACKAGE['digest'](sources)}"
    stamped = f'-DSPECDEC_STAMP="{stamp}"'
    compile_object(sources / "engine.cpp", native / variant.file, *variant.flags, *flags, stamped)


def library_of_the_compiler(name):
    printed = subprocess.run(
        [COMPILER, f"-print-file-name={name}"], check=True, stdout=subprocess.PIPE
    )
    return os.path.realpath(printed.stdout.decode().strip())


def run_tests(folder, *chosen):
    """Run pytest with these arguments in ``folder``, whose package is found before the
    checkout's."""
    # Python has no sanitizer in it; libstdc++ comes along so that exceptions are seen.
    preloaded = [library_of_the_compiler(name) for name in ("libasan.so", "libstdc++.so")]
    environment = dict(
        os.environ,
        PYTHONPATH=str(folder),
        LD_PRELOAD=" ".join(preloaded),
        ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1",
        UBSAN_OPTIONS="print_stacktrace=1",
        SPECDEC_FUZZ_LAST=str(folder / "seed"),
    )
    # No worker of xdist starts with a sanitizer preloaded.
    command = [
        sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist",
    ]  # fmt: skip
    subprocess.run(
        [*command, "--capture=sys", *chosen], cwd=str(folder), env=environment, check=True
    )


def run_threads(folder):
    program = folder / "threads"
    flags = ("-std=c++17", "-O1", "-g1", "-fsanitize=thread", "-pthread")
    include = f"-I{ROOT / NATIVE / 'src'}"
    source = TESTS / "cross" / "threads.cpp"
    subprocess.run([COMPILER, *flags, include, str(source), "-o", str(program)], check=True)
    # with addresses where ThreadSanitizer expects them
    subprocess.run(["setarch", "-R", str(program)], check=True)


def main(fuzz):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        ignored = shutil.ignore_patterns("*.so", "__pycache__")
        shutil.copytree(str(ROOT / NATIVE.parts[0]), str(folder / NATIVE.parts[0]), ignore=ignored)
        with ThreadPoolExecutor() as pool:
            threads = None if fuzz else pool.submit(run_threads, folder)
            build(folder / NATIVE, *MEMORY)
        if threads:
            threads.result()
        if fuzz:
            try:
                run_tests(folder, "-m", "fuzz", str(FUZZER))
            except subprocess.CalledProcessError:
                sys.stderr.write((folder / "seed").read_text() + "\n")
                raise
        else:
            left_out = [f"--ignore={TESTS / name}" for name in LEFT_OUT]
            with ThreadPoolExecutor() as pool:
                # What torch computes is no matter of the engine's memory.
                parts = [str(TESTS), CALLS[0], *left_out], ["-k", "not torch", *CALLS[1:]]
                for part in [pool.submit(run_tests, folder, *chosen) for chosen in parts]:
                    part.result()


if __name__ == "__main__":
    main("--fuzz" in sys.argv[1:])
