"""The rows of ``specdec-env``. A broken installation has a table, too: nothing here raises."""

import importlib
import os
import platform
from importlib import metadata
from typing import Any, Callable, Iterable, List, Tuple

from fairseq_specdec.engine.native import library
from fairseq_specdec.engine.native.variants import PROBE
from fairseq_specdec.io import provenance
from fairseq_specdec.io.printable import printable
from fairseq_specdec.version import __version__

Row = Tuple[str, str]

# Distributions that import as ``fairseq``; setup.py chooses one.
FAIRSEQS = ("fairseq", "ve-fairseq", "fairseq-fixed")
OTHERS = (
    "torchaudio", "numpy", "omegaconf", "hydra-core", "sacrebleu", "subword-nmt", "sacremoses",
    "sentencex",
)  # fmt: skip
# What changes a run without being on its command line.
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
PREFIX = "FAIRSEQ_SPECDEC_"
GIGABYTE = 1e9


def rows() -> List[Row]:
    """Names and values, in the order in which they are asked for."""
    return [
        ("fairseq_specdec", _package()),
        ("Python", _answer(_python)),
        ("fairseq", _answer(_fairseq)),
        ("torch", _answer(_torch)),
        ("also installed", _versions(OTHERS) or "nothing else"),
        ("processor", _answer(_processor)),
        ("variants it runs", _answer(_variants)),
        ("native engine", _answer(_native)),
        ("cost table", _answer(_costs)),
        ("threads", _answer(_threads)),
        ("GPU", _answer(_gpu)),
        ("environment", _environment() or "nothing set"),
    ]


def as_markdown(table: Iterable[Row]) -> str:
    lines = ["| | |", "|---|---|"]
    for name, value in table:
        lines.append(f"| {name} | {printable(value).replace('|', '/')} |")
    return "\n".join(lines) + "\n"


def _answer(ask: Callable[[], str]) -> str:
    """A value, or in its place the error: an installation is looked at because it is broken."""
    try:
        return ask()
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split()) or 'no message'}"


def _package() -> str:
    commit = provenance.commit()
    checkout = os.path.isfile(os.path.join(provenance.CHECKOUT, "setup.py"))
    return f"{__version__}, " + (f"checkout, commit {commit}" if checkout else "installed")


def _python() -> str:
    libc = " ".join(platform.libc_ver()).strip()
    words = [platform.python_version(), f"{platform.system()} {platform.release()}", libc]
    return ", ".join(filter(None, words))


def _versions(names: Iterable[str]) -> str:
    versions = []
    for name in names:
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return ", ".join(versions)


def _fairseq() -> str:
    importlib.import_module("fairseq")
    return _versions(FAIRSEQS) or "imported from a folder, not installed"


def _torch() -> str:
    torch: Any = importlib.import_module("torch")
    return f"{torch.__version__}, " + (
        f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU"
    )


def _processor() -> str:
    memory = f"{provenance.memory_bytes() / GIGABYTE:.0f} GB of memory"
    return f"{provenance.cpu()}, {platform.machine()}, {provenance.cores()} cores, {memory}"


def _variants() -> str:
    if not (library.FOLDER / PROBE).exists():
        return "unknown, since the native engine was not built"
    names = [each.name for each in library.supported()]
    return ", ".join(reversed(names)) or "none"


def _native() -> str:
    """The variant that decodes on a CPU, or why none does."""
    loaded = library.load()
    return f"no: {library.why_not()}" if loaded is None else f"yes: {loaded.variant}"


def _costs() -> str:
    """Where the figures are from by which drafts are planned."""
    tables: Any = importlib.import_module("fairseq_specdec.costs.tables")
    loaded = library.load()
    return "none: it is of the native engine" if loaded is None else tables.origin("auto", loaded)


def _threads() -> str:
    native = library.threads_wanted(os.environ)
    torch: Any = importlib.import_module("torch")
    return f"native engine {native}, torch {torch.get_num_threads()}"


def _gpu() -> str:
    """Each card, and whether this torch has kernels for it."""
    torch: Any = importlib.import_module("torch")
    devices: Any = importlib.import_module("fairseq_specdec.engine.devices")
    if not torch.cuda.is_available():
        why = "no driver or card found" if torch.version.cuda else "this torch is a CPU build"
        return f"none ({why})"
    cards = []
    for index in range(torch.cuda.device_count()):
        name = torch.cuda.get_device_name(index)
        capability = torch.cuda.get_device_capability(index)
        memory = torch.cuda.get_device_properties(index).total_memory / GIGABYTE
        reason = devices.why_not(capability, torch.cuda.get_arch_list(), name)
        fits = reason or "torch has kernels for it"
        cards.append(f"{name}, sm_{capability[0]}{capability[1]}, {memory:.0f} GB: {fits}")
    return "; ".join(cards)


def _environment() -> str:
    names = sorted(name for name in os.environ if name in VARIABLES or name.startswith(PREFIX))
    return ", ".join(f"{name}={os.environ[name]}" for name in names)
