"""Any drafter, scripted ones too, before any verifier; what comes out is compared with fairseq."""

import copy

import torch
from fairseq.utils import get_activation_fn
from scripted_drafter import KINDS, ScriptedDrafter
from toy_strategies import check, flags, make_generator, stock
from toy_strategies import decode as decode_with
from toy_translation import (
    EOS,
    PAD,
    SHAPES,
    WORDS,
    make_sample,
    sentences,
    toy_attached_drafter,
    toy_drafter,
    toy_model,
)

from fairseq_specdec.decoding.builder import Overrides
from fairseq_specdec.decoding.pace import FewRejections
from fairseq_specdec.drafting import DraftOptions, NarBlockDrafter

SENTENCES = sentences(24, seed=7)
BACKENDS = ("torch", "auto")


def block_drafter(verifier, kind):
    """Of a verifier; ``kind`` is gad or gad-attached, and -bf16, -int8 or -unsure."""
    like = next(verifier.parameters()).dtype
    own = "fp32" if like == torch.float32 else None
    number_format = {"gad-bf16": "bf16", "gad-int8": "int8"}.get(kind, own)
    dtype = torch.bfloat16 if number_format == "bf16" else like
    if kind.startswith("gad-attached"):
        known = [shape for shape in SHAPES if toy_model(shape) is verifier]
        model = toy_attached_drafter(known[0] if known else "post_norm", 4, 80, chain_width=16)
    else:
        model = toy_drafter()
    model = copy.deepcopy(model).to(dtype)
    confidence = 0.4 if kind.endswith("-unsure") else 0.0
    return NarBlockDrafter(model, DraftOptions(4, PAD, EOS, number_format, confidence=confidence))


def decode(models, sample, kind, args, outputs=(), prefix=None, spare=None, backend="auto"):
    """(hypotheses, generator), in whole drafts unless a verification may have ``spare`` rejected
    tokens. ``kind`` is a kind of ``ScriptedDrafter`` or ``block_drafter``, greedy or iad."""
    drafter = None
    if kind in KINDS:
        drafter = ScriptedDrafter(outputs, kind, WORDS)
    elif kind.startswith("gad"):
        drafter = block_drafter(models[0], kind)
    planning = None if spare is None else FewRejections(spare)
    budget = {} if spare is None else {"draft_budget": None}
    generator = make_generator(
        "iad" if kind == "iad" else "greedy", args, models, backend=backend,
        overrides=Overrides(drafter, planning=planning), **budget,
    )  # fmt: skip
    assert (generator.options.draft_budget == 0) == (spare is None)
    return decode_with(generator, sample, prefix), generator


def compare(models, kind, args=None, left=True, prefix=None, chosen=SENTENCES, spare=None):
    """(fairseq's outputs, which are ours on both backends; the statistics of the last one)."""
    sample, args = make_sample(chosen, left), args or flags()
    reference = stock(models, sample, args, prefix)
    outputs = [h["tokens"].tolist() for h in reference]
    for backend in BACKENDS:
        ours, generator = decode(models, sample, kind, args, outputs, prefix, spare, backend)
        check(ours, reference)
    return outputs, generator.stats


def activated(model, activation):
    """A copy with another activation in every layer."""
    model = copy.deepcopy(model)
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        layer.activation_fn = get_activation_fn(activation)
    return model
