"""Finds, checks and loads the shared object of the native engine that suits this processor.

An object is loaded only if it is whole (it ends with a digest of itself), if a probe compiled for
the architecture's baseline finds that processor and operating system have its instructions, and if
its version and the sizes of its structures are those of this package. What fails is reported in one
line, and the next best variant is tried; without any, the engine runs on torch.
"""

import ctypes
import logging
import os
import pathlib
import platform
import shlex
import weakref
from collections.abc import Mapping
from typing import Any

from fairseq_specdec.engine.native.structures import STRUCTURES
from fairseq_specdec.engine.native.variants import PROBE, VARIANTS, Variant, digest, is_sealed
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.forks import Lock
from fairseq_specdec.version import __version__

logger = logging.getLogger(__name__)

ENVIRONMENT = "FAIRSEQ_SPECDEC_NATIVE"
FOLDER = pathlib.Path(__file__).resolve().parent
REMEDY = "install fairseq_specdec again"

_POINTER, _INT = ctypes.c_void_p, ctypes.c_int

# Argument types of each entry point. Those that end in _free answer nothing, all others a code.
SIGNATURES: dict[str, list[Any]] = {
    "specdec_set_threads": [_INT],
    "specdec_matrix_new": [_INT, _INT, _POINTER, _INT, _POINTER, _INT, _POINTER],
    "specdec_matrix_borrow": [_POINTER, _POINTER],
    "specdec_matrix_parts": [_POINTER, _POINTER],
    "specdec_matrix_free": [_POINTER],
    "specdec_matrix_rows": [_POINTER, ctypes.c_int64, _POINTER, _POINTER],
    "specdec_matrix_multiply": [_POINTER, _INT, _POINTER, _INT, _POINTER, _INT, _INT],
    "specdec_stack_new": [_POINTER, _POINTER],
    "specdec_stack_free": [_POINTER],
    "specdec_stack_matrix": [_POINTER, _INT, _INT, _POINTER],
    "specdec_stack_norm": [_POINTER, _INT, _INT, _INT, _POINTER, _POINTER, ctypes.c_float],
    "specdec_stack_finish": [_POINTER],
    "specdec_encode": [_POINTER, _INT, _INT, _INT, _POINTER, _POINTER],
    "specdec_logits": [_POINTER, _INT, _INT, _POINTER, _POINTER],
    "specdec_session_new": [_POINTER, _POINTER],
    "specdec_session_free": [_POINTER],
    "specdec_session_open": [_POINTER, _INT, _INT, _INT, _POINTER, _POINTER, _INT],
    "specdec_session_select": [_POINTER, _INT, _POINTER],
    "specdec_session_list": [_POINTER, ctypes.c_int64, _POINTER, _INT],
    "specdec_session_preview": [_POINTER, _POINTER, _POINTER, _INT],
    "specdec_session_observe": [_POINTER, ctypes.c_int64, _POINTER, _POINTER],
    "specdec_session_list_add": [_POINTER, ctypes.c_int64, _POINTER],
    "specdec_session_run": [_POINTER, _POINTER],
    "specdec_verify": [_POINTER, _POINTER],
    "specdec_drafter_new": [_POINTER, _INT, _POINTER, _INT, _INT, _POINTER],
    "specdec_drafter_free": [_POINTER],
    "specdec_drafter_states": [_POINTER, _INT, _POINTER, _INT, _POINTER],
    "specdec_drafter_chain": [_POINTER, _INT, *[_POINTER] * 5],
    "specdec_session_words": [_POINTER, _POINTER, _INT, _POINTER, _POINTER],
    "specdec_draft": [_POINTER, _INT, _POINTER, _POINTER, _POINTER],
    "specdec_beams_new": [_POINTER, _POINTER, _POINTER],
    "specdec_beams_free": [_POINTER],
    "specdec_beams_look_ahead": [_POINTER, _INT, _INT, _POINTER, _INT, _INT],
    "specdec_beams_run": [_POINTER, ctypes.c_int64, _POINTER],
    "specdec_beams_facts": [_POINTER, _INT, _POINTER],
    "specdec_beams_hypothesis": [_POINTER, _INT, _INT, _INT, _INT, *[_POINTER] * 3],
}

# What a call raises, by its code (src/errors.h).
_ERRORS = {1: ValueError, 2: MemoryError, 3: RuntimeError}


class UnusableError(Exception):
    """A shared object that must not be used; the message gives the reason."""


class Library:
    """One loaded variant. Raises UnusableError: it is no object of this package in this version."""

    def __init__(self, path: pathlib.Path) -> None:
        try:
            self.handle = ctypes.CDLL(str(path))
            self.handle.specdec_stamp.restype = ctypes.c_char_p
            self.handle.specdec_error.restype = ctypes.c_char_p
            version, self.variant, sources = self.handle.specdec_stamp().decode().split()
            if version == __version__:
                for name, arguments in SIGNATURES.items():
                    function = getattr(self.handle, name)
                    function.argtypes = arguments
                    function.restype = None if name.endswith("_free") else _INT
                self._check_structures()
        except (OSError, AttributeError, ValueError) as error:
            raise UnusableError(f"is no native engine: {error}") from None
        if version != __version__:
            raise UnusableError(f"belongs to version {version}, the package is {__version__}")
        if (FOLDER / "src").is_dir() and sources != digest(FOLDER / "src"):
            raise UnusableError("is older than its sources")

    def _check_structures(self) -> None:
        """Compare the sizes of what calls pass with those that the object was compiled with."""
        size_of, name = self.handle.specdec_structure, ctypes.c_char_p()
        size_of.restype = ctypes.c_size_t
        theirs: dict[str, int] = {}
        while size := size_of(len(theirs), ctypes.byref(name)):
            theirs[(name.value or b"").decode()] = size
        ours = {name: ctypes.sizeof(each) for name, each in STRUCTURES.items()}
        wrong = sorted({name for name, _ in theirs.items() ^ ours.items()})
        if wrong:
            raise UnusableError(f"has other structures than this package: {', '.join(wrong)}")

    def call(self, name: str, *arguments: Any) -> None:
        """Call an entry point, without the GIL. Raises ValueError or MemoryError or RuntimeError:
        as of the engine."""
        code = getattr(self.handle, name)(*arguments)
        if code:
            message = self.handle.specdec_error().decode(errors="replace")
            raise _ERRORS.get(code, RuntimeError)(message)

    def set_threads(self, count: int) -> None:
        """Let so many threads share each large product, for all users of this library."""
        self.threads = count
        self.call("specdec_set_threads", count)

    def make(self, owner: object, what: str, *arguments: Any, by: str = "new") -> ctypes.c_void_p:
        """What ``specdec_WHAT_BY`` makes of the arguments; it is freed with its owner."""
        made = ctypes.c_void_p()
        self.call(f"specdec_{what}_{by}", *arguments, ctypes.byref(made))
        weakref.finalize(owner, getattr(self.handle, f"specdec_{what}_free"), made)
        return made


_lock = Lock()
# The library, or None and why there is none, by the value of the environment variable.
loaded: dict[str, tuple[Library | None, str]] = {}


def load() -> Library | None:
    """The best variant that this machine runs, or None (``why_not`` has the reason).

    The environment variable FAIRSEQ_SPECDEC_NATIVE picks one by name, or none with ``off``.

    Raises:
        ValueError: it names one that is unknown, not built, or not for this processor.
    """
    return _find()[0]


def why_not() -> str:
    """Why ``load`` gives None, in a line; empty where it gives a library."""
    return _find()[1]


def _find() -> tuple[Library | None, str]:
    wanted = os.environ.get(ENVIRONMENT, "")
    with _lock:
        if wanted not in loaded:
            loaded[wanted] = _search(wanted, FOLDER)
        return loaded[wanted]


def _search(wanted: str, folder: pathlib.Path) -> tuple[Library | None, str]:
    if wanted == "off":
        return None, f"{ENVIRONMENT} is off"
    names = [each.name for each in VARIANTS]
    if wanted and wanted not in names:
        raise UsageError(f"{ENVIRONMENT}={wanted}", f"choose off or one of {', '.join(names)}")
    built = [each for each in VARIANTS if (folder / each.file).exists()]
    here = f"this processor ({platform.machine()})"
    why_not = f"none of {', '.join(each.name for each in built)} suits {here}"
    if not built:
        why_not = not_built(folder)
    candidates = [each for each in supported(folder) if each in built] if built else []
    candidates = [each for each in candidates if wanted in ("", each.name)]
    if wanted and not candidates:
        reason = f"it is not built, or not for {here}" if built else why_not
        raise UsageError(f"{ENVIRONMENT}={wanted}", reason)
    for variant in reversed(candidates):
        try:
            library = Library(_checked(folder / variant.file))
            library.set_threads(threads_wanted(os.environ))
            return library, ""
        except UnusableError as error:
            why_not = f"{folder / variant.file} {error}; {REMEDY}"
            logger.warning("the native engine is not used: %s", why_not)
    return None, why_not


def not_built(folder: pathlib.Path) -> str:
    """That the native engine was not built, and the command that builds it."""
    remedy = REMEDY
    if (folder / "src").is_dir():
        checkout = shlex.quote(str(folder.parents[2]))
        remedy = f"run pip install --force-reinstall --no-deps -e {checkout}"
    return f"it was not built: install a C++17 compiler (apt-get install g++), then {remedy}"


def supported(folder: pathlib.Path = FOLDER) -> list[Variant]:
    """The variants that this processor and operating system can run, worst first."""
    path = folder / PROBE
    try:
        probe = _checked(path)
        handle = ctypes.CDLL(str(probe))
        handle.specdec_variants.restype = ctypes.c_uint
        bits = handle.specdec_variants()
    except (OSError, AttributeError, UnusableError) as error:
        logger.warning("the native engine is not used: %s: %s; %s", path, error, REMEDY)
        return []
    return [each for i, each in enumerate(VARIANTS) if bits >> i & 1]


def threads_wanted(environment: Mapping[str, str]) -> int:
    """OMP_NUM_THREADS, at most the cores of this process; 1 where it is not set.

    torch takes all cores then. Here one is the better guess: a thread that has to be woken for a
    product of a millisecond often comes too late, above all on virtual machines.
    """
    words = environment.get("OMP_NUM_THREADS", "").split(",")
    if not words[0].strip().isdigit():
        return 1
    here = getattr(os, "sched_getaffinity", None)
    cores = len(here(0)) if here else os.cpu_count() or 1
    return min(max(int(words[0]), 1), cores)


def _checked(path: pathlib.Path) -> pathlib.Path:
    """The path of an object that is whole: one that was cut would crash the loader."""
    try:
        whole = is_sealed(path)
    except OSError as error:
        raise UnusableError(f"cannot be read: {error.strerror}") from None
    if not whole:
        raise UnusableError("is damaged, or was altered after it was built")
    return path
