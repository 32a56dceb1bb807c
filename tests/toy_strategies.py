"""Toy models for every strategy, so that the common tests run over all of ``STRATEGIES``."""

import copy
import dataclasses
import functools
import pathlib
import tempfile
from argparse import Namespace
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from fairseq.dataclass.configs import GenerationConfig
from toy_blockwise import toy_blockwise
from toy_early_exit import toy_early_exit
from toy_translation import EOS, PAD, WORDS, make_task, toy_attached_drafter, toy_drafter, toy_model

from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.beam.native import NativeBeams
from fairseq_specdec.decoding.builder import Overrides, build_generator
from fairseq_specdec.decoding.strategies import STRATEGIES


class Toys(NamedTuple):
    """A strategy, what it decodes with in the tests, and what it promises.

    Attributes:
        strategy: its name in ``STRATEGIES``.
        lossless: the flags under which the output is stock fairseq's at beam 1; None where no flags
            make it so.
        settings: the flags otherwise.
        verifier: makes the model of ``--path``; cached.
        drafter: makes the model of ``--drafter-path``; cached.
    """

    strategy: str
    lossless: dict[str, Any] | None
    settings: dict[str, Any] = {}
    verifier: Callable[[], Any] = toy_model
    drafter: Callable[[], Any] | None = None


@functools.cache
def blockwise():
    with tempfile.TemporaryDirectory() as folder:
        return toy_blockwise(pathlib.Path(folder), block_size=4, freeze_base=True)


def attached():
    return toy_attached_drafter("post_norm", 4, 80, chain_width=16)


def small():
    """Another model of the language: right often, not always."""
    return toy_model("learned", seed=2)


STRICT = {"top_beta": 1, "tau": 0.0}
RELAXED = {"top_beta": 4, "tau": 2.0}
THRESHOLDS = {"alpha_fb": 0.5, "alpha_rb": 2.0}
KEEP_NONE = {"alpha_fb": 0.5, "alpha_rb": 0.0}

TOYS = {
    "greedy": Toys("greedy", {}),
    "none": Toys("none", {}),
    "iad": Toys("iad", {}),
    "iad-any-suffix": Toys("iad", {"max_suffix": 0}, {"max_suffix": 0}),
    "given": Toys("given", {}),  # without a text
    "lookup": Toys("lookup", {}, {"block_size": 3, "max_suffix": 2}),
    "gad": Toys("gad", {}, drafter=toy_drafter),
    "gad-attached": Toys("gad", {}, {"draft_confidence": 0.05}, drafter=attached),
    "gad++": Toys("gad++", STRICT, RELAXED, drafter=toy_drafter),
    "specdec": Toys("specdec", STRICT, RELAXED, drafter=toy_drafter),
    "nar": Toys("nar", None, {}, drafter=toy_drafter),
    "sps": Toys("sps", {}, drafter=small),
    "blockwise": Toys("blockwise", {}, {"accept_top_k": 2, "min_block_size": 2}, blockwise),
    "specdec-heads": Toys("specdec-heads", STRICT, RELAXED, blockwise),
    "bild": Toys("bild", KEEP_NONE, THRESHOLDS, drafter=small),
    "bild-early-exit": Toys("bild-early-exit", KEEP_NONE, THRESHOLDS, toy_early_exit),
}


assert {toys.strategy for toys in TOYS.values()} == set(STRATEGIES), "each needs a row in TOYS"


def verifying():
    """Those of ``TOYS`` in which a verifier decides: it keeps constraints and prefixes."""
    return [case for case, toys in TOYS.items() if STRATEGIES[toys.strategy].verifies]


def flags(beam=1, **changes):
    """fairseq's generation flags; all hypotheses of the beam come out."""
    given = dict(beam=beam, nbest=beam, **changes)
    return Namespace(**dict(dataclasses.asdict(GenerationConfig()), **given))


def make_generator(
    case, args=None, models=None, lossless=True, free_unpacked=False, extra=None, overrides=None,
    **settings,
):  # fmt: skip
    """The generator of a case, built as the task builds it; its models are ``models``.

    Args:
        case: a name in ``TOYS``.
        args: generation flags.
        models: the ensemble; the case's own verifier if left out.
        lossless: with the flags that make it so, else with the others.
        free_unpacked, extra, overrides: as for ``build_generator``; whole drafts, however many
            rows, unless there is a ``draft_budget``.
        settings: more decoding flags.
    """
    own = TOYS[case]
    chosen = own.lossless if lossless else own.settings
    given = dict(chosen or {}, strategy=own.strategy, **settings)
    if own.drafter is not None:
        given["drafter_path"] = __file__  # any file: `load` reads none
    words = make_task().tgt_dict
    overrides = overrides or Overrides()
    return build_generator(
        models or [own.verifier()], words, words, args or flags(), decoding_settings(**given),
        load=lambda *_: copy.deepcopy(own.drafter()), free_unpacked=free_unpacked, extra=extra,
        overrides=overrides._replace(always_draft="draft_budget" not in settings),
    )  # fmt: skip


def decode(generator, sample, prefix=None):
    """The hypothesis of every sentence of a batch."""
    ranked = generator.generate(generator.models, sample, prefix_tokens=prefix)
    return [hypotheses and hypotheses[0] for hypotheses in ranked]


def stock_beams(models, sample, args, prefix=None, extra=None):
    """All hypotheses of fairseq's own search."""
    task = make_task()
    generator = task.build_generator(models, args, extra_gen_cls_kwargs=extra)
    return task.inference_step(generator, models, sample, prefix_tokens=prefix)


def stock(models, sample, args, prefix=None, extra=None):
    """The best hypotheses of fairseq's own search."""
    return [h[0] for h in stock_beams(models, sample, args, prefix, extra)]


def forced(rows, width=4):
    """Prefixes of every length up to ``width``, some of which end the sentence."""
    generator = torch.Generator().manual_seed(9)
    prefix = torch.randint(4, 4 + WORDS, (rows, width), generator=generator)
    for row in range(rows):
        size = row % (width + 1)
        prefix[row, size:] = PAD
        if row % 7 == 3 and size > 1:
            prefix[row, size - 1] = EOS
    return prefix


def forced_here_and_there(rows, width=4):
    """Prefixes with places where any token may stand, and unknown words; some rows have none."""
    prefix = torch.randint(3, 4 + WORDS, (rows, width), generator=torch.Generator().manual_seed(4))
    for row in range(rows):
        prefix[row, row % width] = PAD
        prefix[row, 1 + row % 3] = 3 if row % 2 else PAD
    prefix[2::5] = PAD
    return prefix


def check(outputs, expected):
    """One hypothesis of each sentence: equal tokens, and scores but for rounding."""
    assert tokens(outputs) == tokens(expected)
    for mine, theirs in zip(outputs, expected):
        scores = (mine["positional_scores"].float(), theirs["positional_scores"].float())
        torch.testing.assert_close(*scores, atol=1e-4, rtol=0)
        assert mine["score"].dim() == 0  # unnormalised ones are in the hundreds
        torch.testing.assert_close(
            *(one["score"].cpu() for one in (mine, theirs)), atol=1e-4, rtol=1e-6
        )


def check_beams(outputs, expected):
    """The same of all hypotheses of each sentence."""
    assert len(outputs) == len(expected)
    for mine, theirs in zip(outputs, expected):
        check(mine, theirs)


def look_ahead(monkeypatch, steps, beams):
    """The library's drafts for beams reach so far, whatever pays."""
    monkeypatch.setattr(NativeBeams, "reach", lambda self: (steps, beams))


def tokens(hypotheses):
    """Token ids of every hypothesis."""
    return [hypothesis["tokens"].tolist() for hypothesis in hypotheses]


def bits(hypotheses):
    """Tokens and scores of every hypothesis, to the bit."""
    return [(h["tokens"].tolist(), h["positional_scores"].tolist()) for h in hypotheses]
