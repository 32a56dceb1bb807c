"""The numbers of a call of the native library, for tests that replace one by an impossible one."""

import contextlib
import ctypes
import re
from typing import Any, NamedTuple

from fairseq_specdec.engine.native import structures
from fairseq_specdec.engine.native.library import SIGNATURES

LARGE = {ctypes.c_int: 2**31 - 1, ctypes.c_int64: 2**62}
NEGATIVE = {ctypes.c_int: (-1, -(2**31)), ctypes.c_int64: (-1, -(2**63))}
# Sizes of the caller's buffers, which the library cannot know.
CALLERS = re.compile(
    r"specdec_(matrix_new|matrix_multiply|matrix_rows|encode|logits|beams_hypothesis)\.\d+$"
    r"|embedding\.places$"
)
# Numbers of which any will do.
FREE = re.compile(
    r"specdec_(stack_new\.0\.(decoder|cross|pre_norm)|beams_run\.1|drafter_new\.4|beams_hypothesis\.2)"
    r"|\.(min_len|max_len|top_beta|done|windows?|candidates|positions)$"
)
NOT_ZERO = re.compile(
    r"specdec_(set_threads\.0|matrix_new\.[01]|encode\.[123]|session_open\.[126]|session_list\.[13]|session_preview\.3|drafter_chain\.1)$"
    r"|\.(rows|width|inner|heads|source|features|vocabulary|places|columns|max_iterations|beam|block)$"
)
# Arguments and fields that point to whole numbers, of which there is one at least.
BUFFERS = {
    "specdec_matrix_rows.2", "specdec_session_select.2", "specdec_session_list.2",
    "specdec_session_list_add.2", "specdec_session_words.3", "specdec_session_words.4",
}  # fmt: skip
FIELDS = {
    structures.RunCall: ("slots",),
    structures.Rules: ("prefix", "limits"),
    structures.Drafts: ("sizes",),
    structures.Hypotheses: ("tokens", "lengths"),
    structures.SourceCopy: ("origin", "ends"),
}
# Fields that are read only where another is set.
READ_WITH = {
    structures.Embedding: {"places": "positions"},
    structures.Drafting: {"state_stride": "states", "embedding": "session"},
    structures.StepOutputs: {"state_stride": "states"},
}
ANSWERS = {
    ("specdec_matrix_parts", structures.MatrixParts), ("specdec_beams_facts", structures.BeamFacts),
}  # fmt: skip


class Number(NamedTuple):
    """One number: ``owner[key]`` in the list of arguments, or a field of a ctypes object."""

    label: str
    kind: Any
    owner: Any
    key: Any

    def impossible(self, free=False):
        """Values that must be refused; ``free``: those of numbers that may be any, too."""
        if FREE.search(self.label) and not free:
            return ()
        large = () if CALLERS.search(self.label) else (LARGE[self.kind],)
        zero = (0,) if NOT_ZERO.search(self.label) else ()
        anything = self.label.endswith("prefix[0]")  # where any token may come
        return (*(() if anything else NEGATIVE[self.kind]), *large, *zero)

    def put(self, value):
        """Write it; the value before."""
        if isinstance(self.owner, list):
            before, self.owner[self.key] = self.owner[self.key], value
        else:
            before = getattr(self.owner, self.key)
            setattr(self.owner, self.key, value)
        return before

    @contextlib.contextmanager
    def replaced(self, value):
        before = self.put(value)
        try:
            yield
        finally:
            self.put(before)


def numbers(name, arguments):
    """Every ``Number`` of a call. ``arguments`` is a list; it and what it points to is changed."""
    for at, kind in enumerate(SIGNATURES[name]):
        label, given = f"{name}.{at}", arguments[at]
        structure = getattr(given, "_obj", None)
        if kind in LARGE:
            yield Number(label, kind, arguments, at)
        elif isinstance(structure, ctypes.Structure) and (name, type(structure)) not in ANSWERS:
            yield from _fields(structure, label)
        elif label in BUFFERS and given:
            yield _first(given if isinstance(given, int) else ctypes.addressof(given), label)


def _first(address, label):
    return Number(f"{label}[0]", ctypes.c_int64, ctypes.c_int64.from_address(address), "value")


def _fields(structure, label):
    for name, kind in structure._fields_:
        value, place = getattr(structure, name), f"{label}.{name}"
        needed = READ_WITH.get(type(structure), {}).get(name)
        if needed and not getattr(structure, needed):
            continue
        if kind in LARGE:
            yield Number(place, kind, structure, name)
        elif isinstance(value, ctypes.Structure):
            yield from _fields(value, place)
        elif value and hasattr(kind, "contents") and isinstance(value.contents, ctypes.Structure):
            yield from _fields(value.contents, place)
        elif value and name == "copy":
            yield from _fields(structures.SourceCopy.from_address(value), place)
        elif value and name in FIELDS.get(type(structure), ()):
            yield _first(value, place)
