"""How a model is decoded where its user does not say, as ``specdec-accelerate`` measured it or else
by its drafter: on a CPU that drafts only where it pays by measured times (``decoding/pace.py``)."""

import logging
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from fairseq_specdec.decoding.strategies import OWN_FLAGS
from fairseq_specdec.drafting.twin import TwinDrafter
from fairseq_specdec.engine.backend import why_not_native
from fairseq_specdec.engine.native import library
from fairseq_specdec.io.atomic import read_json, write_json
from fairseq_specdec.io.provenance import sha256

from .converted import Described

logger = logging.getLogger(__name__)
Flags = Mapping[str, Any]

MEASURED = "fastest.json"
WIDEST = 8
"""Rows of a batch for which ``gad`` is chosen on a GPU. On the demo pair (H200) it is 1.11 times as
fast as greedy with 8, and 0.87 times with 32."""


class Choice(NamedTuple):
    """A strategy, and why it was chosen."""

    strategy: str
    why: str
    wide: str | None = None  # that of batches of more than ``WIDEST`` rows; None for the same


def decide(
    asked: str | None, drafter: str | None, described: Described | None, flags: Flags, on_gpu: bool
) -> Choice:
    """The strategy of a model: that ``asked`` for, else the measured one, else gad with a
    ``drafter`` (its checkpoint), else greedy. ``described``: the converted model beside which that
    was found, or None. ``flags``: of ``from_pretrained``."""
    if asked is not None:
        return Choice(asked, "asked for")
    if drafter is None:
        return Choice("greedy", "no drafter is given or beside the verifier")
    noted = fastest(described.folder, drafter, described.languages, flags) if described else None
    choice = noted or Choice("gad", f"{drafter} drafts, and was not measured by specdec-accelerate")
    wide = on_gpu and choice.strategy == "gad" and not drafts(flags)
    return choice._replace(wide="greedy" if wide else None)


def drafts(flags: Flags) -> bool:
    """Whether a flag is one of drafts, so that they are wanted."""
    return any(f == "block_size" or "greedy" not in OWN_FLAGS.get(f, ("greedy",)) for f in flags)


def note(folder: str, drafter: str, ways: Mapping[str, Mapping[int, str]]) -> None:
    """Write the fastest strategy of each pair (``en-de``) by beam, one sentence at a time, with
    ``drafter`` (its checkpoint)."""
    write_json(os.path.join(folder, MEASURED), {"drafter": _identity(drafter), "pairs": ways})


def _identity(path: str) -> dict[str, Any]:
    return {"bytes": os.path.getsize(path), "sha256": sha256(path)}


def fastest(folder: str, drafter: str, pair: tuple[str, str], flags: Flags) -> Choice | None:
    """The fastest strategy of a pair, one sentence at a time, at the measured beam that is nearest
    to that of ``flags``; None where the pair was not measured, or another drafter was, or a flag is
    one of drafts."""
    path, asked = os.path.join(folder, MEASURED), flags.get("beam", 1)
    if drafts(flags) or not isinstance(asked, int) or not os.path.isfile(path):
        return None
    noted = read_json(path)
    beams: dict[str, str] = noted["pairs"].get("-".join(pair))
    if not beams:
        return None
    if noted["drafter"] != _identity(drafter):
        remedy = "run specdec-accelerate for this one, or delete the file"
        logger.warning("%s: was measured with another drafter than %s; %s", path, drafter, remedy)
        return None
    beam = min(beams, key=lambda each: (abs(int(each) - asked), int(each)))
    logger.info("%s: strategy %s, the fastest at beam %s by %s", folder, beams[beam], beam, path)
    return Choice(beams[beam], f"the fastest at beam {beam} by {path}")


def facts(generator: Any, choice: Choice) -> dict[str, str]:
    """What decodes: each fact, and after a colon why. ``generator``: a ``SpeculativeGenerator``."""
    parts, native = generator.parts(), library.load()
    drafter, models, threads = parts.drafter, parts.verifier.models, torch.get_num_threads()
    refusal, weight = why_not_native(parts.options.backend, models), next(models[0].parameters())
    backend, form = f"torch on {weight.device}: {refusal}", str(weight.dtype)[len("torch.") :]
    if native is not None and not refusal:
        backend, form = f"native, {native.variant}", parts.options.verifier_format
        threads = native.threads
    twin, listed = "none: greedy has one for large models", "whole: large ones have a list"
    if isinstance(drafter, TwinDrafter):
        twin = "int8: drafts for one sentence at a time" if drafter.alone else "int8: asked for"
    if parts.vocabulary is not None and not refusal:
        preview = "; a preview for one sentence at a time" if parts.vocabulary.observed else ""
        listed = f"a list of {len(parts.vocabulary.tokens)} tokens{preview}"
    wide = f"; {choice.wide} in batches of more than {WIDEST}" if choice.wide else ""
    return {
        "strategy": f"{generator.strategy}: {choice.why}{wide}", "backend": backend,
        "format": form, "twin": twin, "vocabulary": listed, "threads": str(threads),
    }  # fmt: skip
