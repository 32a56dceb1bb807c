"""Broken engines that every lossless strategy's identity test must notice."""

import copy
import functools

import pytest
from broken_engines import (
    MUTANTS,
    SLOWER,
    accept_a_token_too_many,
    decode_past_the_end,
    drop_the_mask,
    repeat_the_last_token,
    shift_positions,
)
from scripted_drafter import ScriptedDrafter
from toy_strategies import TOYS, cases, decode, flags, make_generator, stock, tokens, toys
from toy_translation import WORDS, make_sample, sentences, toy_model

from fairseq_specdec.decoding.builder import Overrides
from fairseq_specdec.decoding.draft_budget import FewRejections
from fairseq_specdec.engine.eager import linear
from fairseq_specdec.engine.eager.kv_cache import KVCache
from fairseq_specdec.engine.verifier import Verifier

SENTENCES = sentences(24, seed=7)


# Mutants that a strategy cannot notice, and why.
NO_DRAFT = "there is no draft"
NONE_KEPT = "where it is lossless, it keeps no draft token"
DRAFTLESS = {
    drop_the_mask: "a block of one token sees all slots up to its own, mask or not",
    accept_a_token_too_many: NO_DRAFT,
    repeat_the_last_token: NO_DRAFT,
    decode_past_the_end: NO_DRAFT,
}
UNHARMED = {
    **{("greedy", mutant): why for mutant, why in DRAFTLESS.items()},
    **{("none", mutant): why for mutant, why in DRAFTLESS.items()},
    ("bild", repeat_the_last_token): NONE_KEPT,
    ("bild", decode_past_the_end): NONE_KEPT,
    ("bild-early-exit", repeat_the_last_token): NONE_KEPT,
    ("bild-early-exit", decode_past_the_end): NONE_KEPT,
}


@functools.lru_cache(maxsize=None)
def expected(case):
    """What stock says, once a case: nothing of this project runs in it."""
    return tokens(stock([toys(case).verifier()], make_sample(SENTENCES), flags()))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
@pytest.mark.parametrize("case", cases())
def test_a_broken_verifier_is_noticed(case, mutant, monkeypatch):
    if toys(case).lossless is None:
        pytest.skip("never lossless")
    assert tokens(decode(make_generator(case), make_sample(SENTENCES))) == expected(case)
    mutant(monkeypatch)
    try:
        found = decode(make_generator(case), make_sample(SENTENCES))
    except ValueError as error:  # the engine stops at a token that has no probability
        assert "no possible token" in str(error)
        return
    found = [None if hypothesis is None else hypothesis["tokens"].tolist() for hypothesis in found]
    assert (found == expected(case)) == ((case, mutant) in UNHARMED)


@pytest.mark.parametrize(
    "mutant", [None, drop_the_mask, shift_positions], ids=lambda m: getattr(m, "__name__", "sound")
)
@pytest.mark.parametrize("free_unpacked", [False, True], ids=["kept", "released"])
@pytest.mark.parametrize("case", cases())
def test_packed_products_and_short_drafts_hide_no_fault(case, free_unpacked, mutant, monkeypatch):
    """Toy products are too small to be packed by themselves, and toy batches drafted in full.

    Released: no weight beside the packed ones, embeddings looked up in them too, and torch's
    inference mode, as on the command line.
    """
    if toys(case).lossless is None:
        pytest.skip("never lossless")
    reference = expected(case)
    monkeypatch.setattr(linear, "DIRECT", 0)
    if free_unpacked:
        monkeypatch.setattr(linear, "SMALL", 0)
    if mutant is not None:
        mutant(monkeypatch)
    models = [copy.deepcopy(toys(case).verifier())]
    generator = make_generator(
        case, models=models, free_unpacked=free_unpacked, draft_budget=None,
        overrides=Overrides(planning=FewRejections(40)),
    )  # fmt: skip
    assert generator.options.inference == generator.options.free_unpacked == free_unpacked
    found = tokens(decode(generator, make_sample(SENTENCES)))
    assert (found == reference) == (mutant is None or (case, mutant) in UNHARMED)


def iterations(size):
    """Of the toy model, for drafts of ``size`` tokens that are always right; and its outputs."""
    drafter = ScriptedDrafter(expected("greedy"), "perfect", WORDS, size)
    generator = make_generator("greedy", overrides=Overrides(drafter))
    assert tokens(decode(generator, make_sample(SENTENCES))) == expected("greedy")
    return generator.stats.iterations


def fewest(size):
    """Each iteration is worth the draft and the bonus token."""
    return sum(-(-len(output) // (size + 1)) for output in expected("greedy"))


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_a_right_draft_costs_the_fewest_iterations(size):
    assert iterations(size) == fewest(size)


@pytest.mark.parametrize("mutant", SLOWER, ids=lambda mutant: mutant.__name__)
def test_a_wasteful_engine_is_noticed(mutant, monkeypatch):
    expected("greedy")
    mutant(monkeypatch)
    assert iterations(3) > fewest(3)


# Strategies that draft with a cache of their own. Big Little Decoder is lossless only where it
# accepts nothing, so there the other flags show what a good draft is worth.
OWN_CACHE = {
    "gad": True,
    "gad-attached": True,
    "gad++": True,
    "gad++-budget": True,
    "specdec": True,
    "sps": True,
    "bild": False,
    "bild-early-exit": False,
}
NO_CACHE = {
    "greedy": "drafts nothing",
    "none": "drafts nothing",
    "iad": "copies the source",
    "iad-realign": "copies the source",
    "iad-any-suffix": "copies the source",
    "lookup": "copies the source and the output",
    "blockwise": "drafts with the states of the verification",
    "specdec-heads": "drafts with the states of the verification",
}


@pytest.mark.usefixtures("on_torch")
@pytest.mark.parametrize("case", OWN_CACHE)
def test_a_drafter_that_forgets_costs_tokens_and_changes_nothing(case, monkeypatch):
    lossless = OWN_CACHE[case]
    generator = make_generator(case, lossless=lossless, overrides=Overrides(keep_trace=True))
    whole = decode(generator, make_sample(SENTENCES))
    write, opened = KVCache.write, Verifier.open
    broken = make_generator(case, lossless=lossless, overrides=Overrides(keep_trace=True))
    of_verifier, touched = [], []

    def noted(self, *args):
        session = opened(self, *args)
        of_verifier.extend(one.layers.cache for one in session.sessions)
        return session

    def forgetful(self, layer, entries):
        if any(self is cache for cache in of_verifier):
            return write(self, layer, entries)
        touched.append(layer)
        return write(self, layer, entries * 0)

    monkeypatch.setattr(Verifier, "open", noted)
    monkeypatch.setattr(KVCache, "write", forgetful)
    forgot = decode(broken, make_sample(SENTENCES))
    assert touched and of_verifier
    if lossless:
        assert tokens(forgot) == tokens(whole) == expected(case)
    assert drafts(forgot) != drafts(whole)
    if case != "gad-attached":  # it reads the verifier's states, which remember for it
        assert broken.stats.mean_accepted_tokens < generator.stats.mean_accepted_tokens


def drafts(hypotheses):
    """What was drafted for each sentence, iteration by iteration."""
    parts = [hypothesis["history"][::2] for hypothesis in hypotheses]
    return [[part["tokens"].tolist() for part in history] for history in parts]


def test_every_case_has_a_cache_of_its_own_or_a_reason():
    assert {*OWN_CACHE, *NO_CACHE} == set(TOYS) and not set(OWN_CACHE) & set(NO_CACHE)


@pytest.mark.parametrize("mutant", [drop_the_mask, shift_positions], ids=lambda m: m.__name__)
@pytest.mark.parametrize("shape", ["one_attention", "adaptive", "separate_embeddings"])
def test_a_broken_verifier_of_another_shape_is_noticed(shape, mutant, monkeypatch):
    model, sample = toy_model(shape), make_sample(SENTENCES)
    wanted = tokens(stock([model], sample, flags()))
    overrides = Overrides(ScriptedDrafter(wanted, "noisy", WORDS))
    assert (
        tokens(decode(make_generator("greedy", models=[model], overrides=overrides), sample))
        == wanted
    )
    mutant(monkeypatch)
    generator = make_generator("greedy", models=[model], overrides=overrides)
    try:
        assert tokens(decode(generator, sample)) != wanted
    except ValueError as error:
        assert "no possible token" in str(error)
