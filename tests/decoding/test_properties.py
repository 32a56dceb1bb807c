"""The exactness contract as a property: random models, inputs, limits and drafters.

A number stands for a model (``toy_random``), hypothesis draws everything else. The common run
tries the first numbers, always the same way; ``-m slow`` tries hundreds, anew each day.
"""

import copy
import functools
import itertools
import os
import time
from argparse import Namespace

import pytest
import torch
from fairseq.sequence_generator import EnsembleModel
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st
from scripted_drafter import KINDS, ScriptedDrafter
from toy_random import BLOCK, toy_pair
from toy_strategies import flags, look_ahead
from toy_translation import EOS, FIRST, PAD, make_sample, sentences

from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.builder import Overrides, build_generator

IN_GATE = 4
GATE_BEAMS = st.sampled_from([1, 1, 1, 1, 2, 3, 5, 10])
# Scores this near to each other may change places; how often stock is tried on what follows then.
ROUNDING = 2e-6
NUDGES = 16
# How long the nightly run may take, and how many models it tries at most, below 1,000.
SECONDS = float(os.environ.get("SPECDEC_NIGHTLY_SECONDS", 900))
MOST = 1000 + int(os.environ.get("SPECDEC_NIGHTLY_MODELS", 300))
NIGHT = int(os.environ.get("SPECDEC_NIGHTLY_SEED", time.time() // 86400))

# Flags under which each strategy promises stock's output; the model that drafts.
STRICT = {"top_beta": 1, "tau": 0.0}
KEEP_NONE = {"alpha_fb": 0.5, "alpha_rb": 0.0}
SYSTEMS = {
    "greedy": ("greedy", {}, None),
    "iad": ("iad", {}, None),
    "lookup": ("lookup", {}, None),
    "gad": ("gad", {}, lambda pair: pair.block_drafter()),
    "gad, untrained": ("gad", {}, lambda pair: pair.block_drafter(False)),
    "gad, unsure": ("gad", {"draft_confidence": 0.3}, lambda pair: pair.block_drafter()),
    "gad, attached": ("gad", {}, lambda pair: pair.attached_drafter()),
    "gad++": ("gad++", STRICT, lambda pair: pair.block_drafter()),
    "sps": ("sps", {}, lambda pair: pair.small_model()),
    "sps, itself": ("sps", {}, lambda pair: pair.verifier),
    "blockwise": ("blockwise", {}, None),
    "bild": ("bild", KEEP_NONE, lambda pair: pair.small_model()),
    "bild-early-exit": ("bild-early-exit", KEEP_NONE, None),
}
# Lossless under the flags above, which their rules do not know: they decode one hypothesis.
RELAXED = ("gad++", "bild", "bild-early-exit")
DRAFTERS = [*SYSTEMS, *KINDS]


def cases(drafters, beams):
    """Strategy: everything but the models, ``drafters`` of the drafters at once; ``beams`` draws
    the widths."""
    return st.builds(
        Namespace,
        drafters=st.lists(
            st.sampled_from(DRAFTERS), min_size=drafters, max_size=drafters, unique=True
        ),
        rows=st.integers(1, 9),
        seed=st.integers(0, 2**20),
        longest=st.integers(1, 14),
        left=st.booleans(),
        earlier=st.sampled_from([0, 0, 2, 12]),  # rows that the same generator decodes before
        max_len_a=st.sampled_from([0.0, 0.0, 0.5, 1.0, 2.0]),
        max_len_b=st.sampled_from([0, 1, 2, 3, 5, 9, 16, 30, 200]),
        min_len=st.sampled_from([0, 1, 1, 1, 2, 4, 8]),
        prefix=st.sampled_from([None, None, None, 1, 2, 3, 6]),  # its width
        no_repeat_ngram_size=st.sampled_from([0, 0, 0, 1, 2, 3, 4]),
        unkpen=st.sampled_from([0.0, 0.0, 2.5, -8.0]),
        temperature=st.sampled_from([1.0, 1.0, 0.3, 3.0]),
        lenpen=st.sampled_from([1.0, 0.4, 0.0]),
        unnormalized=st.booleans(),
        ensemble=st.sampled_from([1, 1, 1, 2, 3]),
        block=st.integers(1, 12),
        beam=beams,
        backend=st.sampled_from(["auto", "torch"]),
        reach=st.sampled_from([(0, 0), (1, 2), (3, 4), (16, 40)]),
    )


FLAGS = (
    "max_len_a", "max_len_b", "min_len", "unkpen", "temperature", "lenpen", "no_repeat_ngram_size",
    "unnormalized",
)  # fmt: skip


def flags_of(case, beam):
    """Random models seldom end a sentence: wide beams to the limit of 200 would take minutes."""
    changes = {name: getattr(case, name) for name in FLAGS}
    if case.beam > 1:
        changes["max_len_b"] = min(case.max_len_b, 16)
    return flags(beam, **changes)


def prefix_of(case, words):
    """Forced beginnings of any length, some of which end the sentence."""
    if case.prefix is None:
        return None
    generator = torch.Generator().manual_seed(case.seed + 1)
    shape = (case.rows, case.prefix)
    prefix = torch.randint(3, FIRST + words, shape, generator=generator)
    for row in range(case.rows):
        size = int(torch.randint(0, case.prefix + 1, (1,), generator=generator))
        prefix[row, size:] = PAD
        if size > 1 and torch.rand(1, generator=generator) < 0.2:
            prefix[row, size - 1] = EOS
    return prefix


def stock(pair, models, sample, args, prefix):
    """What fairseq says: of every sentence its hypotheses. None where it dies, or says what has no
    probability."""
    generator = pair.task.build_generator(models, args)
    try:
        ranked = pair.task.inference_step(generator, models, sample, prefix_tokens=prefix)
    except (AssertionError, IndexError):
        return None
    scores = [h["positional_scores"] for h in itertools.chain.from_iterable(ranked)]
    return ranked if all(ranked) and all(s.isfinite().all() for s in scores) else None


def ours(pair, models, sample, args, prefix, drafter, case, reference):
    """What this project says; the generator has decoded another batch before, if so asked."""
    strategy, own, make = SYSTEMS.get(drafter, ("greedy", {}, None))
    given = dict(own, strategy=strategy, backend=case.backend)
    if strategy in ("gad", "gad++", "blockwise"):
        given["block_size"] = min(case.block, BLOCK)
    elif strategy != "greedy":
        given["block_size"] = case.block
    if make is not None:
        given["drafter_path"] = __file__  # any file: `load` reads none
    scripted = None
    if drafter in KINDS:
        outputs = [hypotheses[0]["tokens"].tolist() for hypotheses in reference]
        scripted = ScriptedDrafter(outputs, drafter, pair.words[1], case.block)
    generator = build_generator(
        models, pair.task.src_dict, pair.task.tgt_dict, args, decoding_settings(**given),
        load=lambda *_: copy.deepcopy(make(pair)), overrides=Overrides(scripted),
    )  # fmt: skip
    if case.earlier:
        before = make_sample(sentences(case.earlier, case.seed + 2, 9, pair.words[0]), case.left)
        try:
            generator.generate(models, before)
        except ValueError as error:  # it cannot be decoded so; the one in question comes next
            assert "no possible token" in str(error) or "--min-len" in str(error)
    return generator.generate(models, sample, prefix_tokens=prefix)


def applies(pair, drafter):
    """Whether a drafter drafts for this pair."""
    if drafter == "iad":
        return pair.words[0] == pair.words[1]
    if drafter == "bild-early-exit":
        return pair.settings["decoder_layers"] > 1
    return drafter != "gad, attached" or not pair.settings.get("decoder_output_dim")


def models_of(pair, drafter, size):
    first = pair.verifier
    if drafter == "blockwise":
        first = pair.blockwise()
    elif drafter == "bild-early-exit":
        first = pair.early_exit()
    return pair.ensemble(size, first)


def stock_nudged(*given):
    """The outputs, as tuples, that stock gives a batch when log-probabilities that its search reads
    move by no more than rounding moves them: a set a sentence."""
    generator = torch.Generator().manual_seed(1)
    forward = EnsembleModel.forward_decoder

    def nudged(self, *arguments, **options):
        scores, attention = forward(self, *arguments, **options)
        return scores + ROUNDING * torch.randn(scores.shape, generator=generator), attention

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EnsembleModel, "forward_decoder", nudged)
        runs = [stock(*given) for _ in range(NUDGES)]
    return [
        {tuple(h["tokens"].tolist()) for hypotheses in sentence for h in hypotheses}
        for sentence in zip(*runs)
    ]


def forced_scores(pair, models, sample, args, row, tokens):
    """Those that stock gives to an output of a row that begins with these tokens."""
    prefix = torch.full((len(sample["net_input"]["src_tokens"]), len(tokens)), PAD)
    prefix[row] = torch.tensor(tokens)
    ranked = stock(pair, models, sample, args, prefix)
    return ranked[row][0]["positional_scores"][: len(tokens)]


def check(mine, theirs, nudged, forced):
    """The hypotheses of one sentence. Where two tokens or hypotheses have one score but for
    rounding, either is right: then ``nudged()``, the outputs that stock gives after such a choice,
    have ours; or they differ, and ``forced`` tokens have our scores."""
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs):
        if a["tokens"].tolist() == b["tokens"].tolist():
            scores = (a["positional_scores"].float(), b["positional_scores"].float())
            torch.testing.assert_close(*scores, atol=1e-4, rtol=0)
            assert abs(float(a["score"]) - float(b["score"])) < 1e-4
        else:
            found, tokens = nudged(), tuple(a["tokens"].tolist())
            if tokens not in found and found != {tuple(h["tokens"].tolist()) for h in theirs}:
                found = {tokens: torch.testing.assert_close(a["positional_scores"], forced(tokens))}
            assert tokens in found, (tokens, b["tokens"])


def try_case(number, case):
    pair = toy_pair(number)
    sample = make_sample(sentences(case.rows, case.seed, case.longest, pair.words[0]), case.left)
    width = sample["net_input"]["src_tokens"].size(1)
    limit = int(case.max_len_a * width + flags_of(case, 1).max_len_b)
    target = pair.settings["max_target_positions"]
    assume(case.min_len <= min(limit, target - 1))
    prefix = prefix_of(case, pair.words[1])
    for drafter in case.drafters:
        if not applies(pair, drafter):
            continue
        models = models_of(pair, drafter, case.ensemble)
        args = flags_of(case, 1 if drafter in RELAXED else case.beam)
        reference = stock(pair, models, sample, args, prefix)
        if reference is None:
            # We stop with an error that says why; it leaves no output to script.
            if drafter not in KINDS:
                with pytest.raises(ValueError, match="no possible token"):
                    ours(pair, models, sample, args, prefix, drafter, case, None)
            continue
        with pytest.MonkeyPatch.context() as patch:
            look_ahead(patch, *case.reach)  # drafts for beams reach so far, whatever pays
            outputs = ours(pair, models, sample, args, prefix, drafter, case, reference)
        assert len(outputs) == len(reference) == case.rows
        nudged = functools.lru_cache(maxsize=None)(
            functools.partial(stock_nudged, pair, models, sample, args, prefix)
        )
        for i, (mine, theirs) in enumerate(zip(outputs, reference)):
            given = functools.partial(forced_scores, pair, models, sample, args, i)
            check(mine, theirs, lambda i=i, nudged=nudged: nudged()[i], given)


@functools.cache
def started():
    """When the nightly run began."""
    return time.monotonic()


@pytest.mark.parametrize(
    "nth", [*range(IN_GATE), *(pytest.param(n, marks=pytest.mark.slow) for n in range(1000, MOST))]
)
def test_lossless_strategies_equal_stock(nth):
    """New models and cases every day from number 1000 on; SPECDEC_NIGHTLY_SEED repeats a day's."""
    nightly = nth >= 1000
    if nightly and time.monotonic() - started() > SECONDS:
        pytest.skip(f"SPECDEC_NIGHTLY_SECONDS={SECONDS:.0f} are over")
    number = 1000 * (NIGHT - 1) + nth if nightly else nth

    @seed(number)
    # What fails is shown as it was drawn: to shrink it takes minutes.
    @settings(
        max_examples=6 if nightly else 4, phases=[Phase.generate], database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=cases(5, st.integers(1, 10)) if nightly else cases(3, GATE_BEAMS))
    def try_it(case):
        try_case(number, case)

    try_it()
