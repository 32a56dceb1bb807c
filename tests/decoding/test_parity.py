"""Each drafter, each beam width and each acceptance rule, in each situation, on each backend:
shapes of verifiers, formats of sources, flags, prefixes.

A row is compared with fairseq's own search, or with a slow version of its rule, which read a
sentence alone, in whole passes and without a cache.
"""

import copy
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from pairwise import half
from plain_graphs import plain_graphs
from scripted_drafter import KINDS, ScriptedDrafter
from toy_strategies import (
    TOYS,
    bits,
    check_beams,
    decode,
    flags,
    forced,
    forced_here_and_there,
    look_ahead,
    make_generator,
    stock_beams,
    tokens,
    verifying,
)
from toy_translation import (
    EOS,
    FIRST,
    PAD,
    SHAPES,
    WORDS,
    assert_diverse,
    ids,
    make_sample,
    make_task,
    pad_to,
    sentences,
    toy_model,
)

from fairseq_specdec.acceptance import (
    BlockVerificationRule,
    DistanceRule,
    ExactRule,
    MinimumBlockRule,
    RollbackRule,
    Sampler,
    SamplingRule,
    TopBetaRule,
)
from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding import generator as generator_module
from fairseq_specdec.decoding.builder import Overrides, build_generator
from fairseq_specdec.decoding.strategies import OWN_FLAGS
from fairseq_specdec.engine import torch_layers as linear
from fairseq_specdec.engine.devices import PACKED
from fairseq_specdec.engine.native import library
from fairseq_specdec.engine.scores import Scores
from fairseq_specdec.engine.state import Draft

SENTENCES = sentences(12, seed=7)
SAMPLE = make_sample(SENTENCES)
UNK = 3

# ---- the columns -------------------------------------------------------------------------------

COLUMNS = {
    "torch": "torch",
    "torch, packed": "torch",  # products of packed weights, and no weight beside them
    "torch, recorded": "torch",  # passes and drafts of fixed shapes, as CUDA graphs record them
    "native": "native",
}
# Those that do other things than the first one whatever the flags. Nothing of a beam is recorded,
# and its products are those of one hypothesis.
EXTRA = ("torch, packed", "torch, recorded")
BOTH = ["torch", "native"]


@pytest.fixture(params=COLUMNS)
def backend(request, monkeypatch):
    """The flag's value; the column is made ready."""
    if request.param == "native" and library.load() is None:
        pytest.skip(library.why_not())
    if request.param == "torch, packed":
        monkeypatch.setattr(linear, "PACKED_FROM", 0)
    elif request.param == "torch, recorded":
        monkeypatch.setattr(generator_module, "graphs_for", plain_graphs())
    return COLUMNS[request.param]


def counts(stats):
    return stats.iterations, stats.emitted, stats.drafted, stats.accepted


class Situation(NamedTuple):
    """What a batch is decoded in.

    Attributes:
        changes: generation flags.
        prefix: forced tokens of each sentence, or of all.
        sources: token ids, padded left; without, the batch is ``sample``.
        models: the ensemble, made of a copy of the row's verifier.
        extra: ``extra_gen_cls_kwargs`` of a subclassed task.
        sample: the batch.
    """

    changes: dict[str, Any] = {}
    prefix: Any = None
    sources: list[list[int]] | None = None
    models: Callable[[Any], list[Any]] | None = None
    extra: dict[str, Any] | None = None
    sample: dict[str, Any] = SAMPLE

    def batch(self):
        """(sample, prefix)."""
        sample = self.sample
        if self.sources is not None:
            sample = make_sample([[0]] * len(self.sources))
            lengths = torch.tensor(list(map(len, self.sources)))
            sample["net_input"] = {"src_tokens": pad_to(self.sources, True), "src_lengths": lengths}
        prefix = self.prefix
        if isinstance(prefix, list):
            prefix = torch.tensor([prefix] * sample["nsentences"], dtype=torch.long)
        return sample, prefix


def in_training(model):
    """Stock's generator puts models into evaluation."""
    for module in model.modules():
        if hasattr(module, "dropout_module"):
            module.dropout_module.p = 0.5
    return [model.train()]


def projecting(change):
    """Models with other rows where tokens are chosen."""

    def changed(model):
        projection = copy.deepcopy(model.decoder.output_projection)
        weight = projection.weight.detach().clone()
        change(weight)
        projection.weight = torch.nn.Parameter(weight)
        model.decoder.output_projection = projection
        return [model]

    return changed


def tie_words(weight):
    """Half of the words are equal to the other half."""
    size = WORDS // 2
    weight[FIRST : FIRST + size] = weight[FIRST + size : FIRST + 2 * size]


def prefer_padding(weight):
    """Padding is likelier than </s> where that is likely."""
    weight[PAD] = 2 * weight[EOS]


def by_column(sample):
    """The sources lie in memory as a transposed tensor does."""
    there = sample["net_input"]["src_tokens"].t().contiguous().t()
    return {**sample, "net_input": {**sample["net_input"], "src_tokens": there}}


FORCED, HERE_AND_THERE = forced(len(SENTENCES)), forced_here_and_there(len(SENTENCES))
SITUATIONS = {
    "no flags": Situation(),
    "no n-gram twice": Situation({"no_repeat_ngram_size": 2}),
    "forced": Situation(prefix=FORCED),
    "a token": Situation({"max_len_b": 1}),
    "nothing": Situation({"min_len": 0, "max_len_b": 0}),  # one hypothesis, </s>
    "</s> first": Situation({"min_len": 0}),
    "long": Situation({"min_len": 6}),
    "of one length": Situation({"max_len_b": 3, "min_len": 3}),
    "short": Situation({"max_len_a": 0.5, "max_len_b": 2}),
    "unknown words": Situation({"unkpen": -8.0, "unnormalized": True}),
    "fewer unknown words": Situation({"unkpen": 2.5}),
    "flat": Situation({"temperature": 3.0}),
    "sharp, short ones": Situation({"temperature": 0.3, "lenpen": 0.4}),
    "long ones": Situation({"lenpen": 3.0}),
    "unnormalised": Situation({"unnormalized": True}),
    "no n-gram twice, long": Situation({"no_repeat_ngram_size": 3, "min_len": 9, "max_len_b": 12}),
    "forced, short": Situation({"max_len_b": 3}, FORCED),
    "forced, no n-gram twice": Situation({"no_repeat_ngram_size": 2}, FORCED),
    "forced here and there": Situation({"min_len": 6, "unkpen": 2.5}, HERE_AND_THERE),
    "forced past the limit": Situation({"max_len_b": 4}, [5] * 6),
    "two ends forced": Situation({"max_len_b": 4}, [EOS, EOS]),
    "padding forced": Situation({"max_len_b": 4}, [PAD, PAD]),
    "an empty prefix": Situation({"max_len_b": 4}, []),
    "padded right": Situation(sample=make_sample(SENTENCES, left=False)),
    "by column": Situation(sample=by_column(SAMPLE)),
    "empty sources": Situation(sources=[[EOS], [EOS]]),
    "an empty source beside a long one": Situation(sources=[[EOS], ids(range(1, 9))]),
    "unknown words in the source": Situation(sources=[[UNK, UNK, UNK, EOS], [5, UNK, EOS]]),
    "an end inside the source": Situation(sources=[[5, EOS, 6, EOS], [7, EOS]]),
    "longer than any trained on": Situation(sources=[ids([*range(24)] * 4), ids([3])]),
    "another end": Situation(
        {"max_len_b": 40}, extra={"eos": FIRST + 5, "symbols_to_strip_from_output": {FIRST}}
    ),
    "an ensemble": Situation(models=lambda model: [model, toy_model("pre_norm")]),
    "in training": Situation(models=in_training),
    "double precision": Situation(models=lambda model: [model.double()]),
    "ties": Situation(models=projecting(tie_words)),
    "likely padding": Situation({"max_len_b": 20}, models=projecting(prefer_padding)),
}
SHAPED = {
    **{f"of shape {one}": Situation(models=lambda _, one=one: [toy_model(one)]) for one in SHAPES},
    "to the last position": Situation(
        {"max_len_b": 200, "min_len": 50}, models=lambda _: [toy_model("learned")],
        sample=make_sample(SENTENCES[:3]),
    ),
}  # fmt: skip
SITUATIONS.update(SHAPED)
FEW = ["no flags", "no n-gram twice", "forced"]


def models_in(name, verifier):
    model, make = copy.deepcopy(verifier()), SITUATIONS[name].models
    return [model] if make is None else make(model)


@functools.cache
def wanted(verifier, name, beam=1):
    """What fairseq says: the hypotheses of each sentence."""
    one, (sample, prefix) = SITUATIONS[name], SITUATIONS[name].batch()
    args = flags(beam, **one.changes)
    return stock_beams(models_in(name, verifier), sample, args, prefix, one.extra)


def greedy(name):
    return [best for best, *_ in wanted(toy_model, name)]


# More flags of a drafter.
VARIANTS = {
    "gad, unsure": ("gad", {"draft_confidence": 0.4}),
    "gad, bf16": ("gad", {"drafter_dtype": "bf16"}),
    "gad, as packed": ("gad", {"drafter_dtype": "auto"}),
    "gad-attached, unsure": ("gad-attached", {"draft_confidence": 0.4}),
}
LOSSLESS = [case for case, toys in TOYS.items() if toys.lossless is not None]
DRAFTERS = [*LOSSLESS, *VARIANTS, *KINDS]
# Rows that share code with others are tried in one situation.
LIKE_OTHERS = (
    "none", "specdec", "specdec-heads", "iad-any-suffix", "iad-edits", "lookup", "gad++",
    "bild-early-exit", *VARIANTS, *KINDS,
)  # fmt: skip
# Their drafters read the verifier as it is.
READING = ("blockwise", "specdec-heads", "bild-early-exit")


def cells():
    """(drafter, situation, column) of the table."""
    for row in DRAFTERS:
        for column in COLUMNS:
            if row in KINDS and column in EXTRA:
                continue
            few = row in LIKE_OTHERS or column in EXTRA
            yield from ((row, name, column) for name in FEW[: 1 if few else None])
    rows = [row for row in DRAFTERS if row not in LIKE_OTHERS]
    yield from half(rows, [name for name in SITUATIONS if name not in (*FEW, *SHAPED)], BOTH)
    yield from half(["greedy", "gad", "noisy"], [*SHAPED], BOTH)


def generator_of(row, name, backend, lossless=True, **settings):
    one = SITUATIONS[name]
    args, more = flags(**one.changes), {"backend": backend, "extra": one.extra, **settings}
    if row in KINDS:
        drafter = ScriptedDrafter(tokens(greedy(name)), row, WORDS)
        models = models_in(name, toy_model)
        return make_generator("greedy", args, models, overrides=Overrides(drafter), **more)
    case, own = VARIANTS.get(row, (row, {}))
    if TOYS[case].strategy in OWN_FLAGS["drafter_dtype"]:
        own = {"drafter_dtype": "same", **own}
    models = models_in(name, TOYS[case].verifier)
    free = linear.PACKED_FROM == 0
    return make_generator(case, args, models, lossless, free, **{**own, **more})


@pytest.fixture(scope="module")
def known():
    """Counts of the first column, by row and flags."""
    return {}


@pytest.mark.parametrize("row, name, backend", [*cells()], indirect=["backend"])
def test_drafters(row, name, backend, known):
    """Outputs are fairseq's, and each draft and verdict is that of torch's operators."""
    one, (sample, prefix) = SITUATIONS[name], SITUATIONS[name].batch()
    if one.models and row in READING or name == "ties" and row.startswith("gad++"):
        pytest.skip("reads the model as it is, or keeps a word that equals the best")
    if (name, backend) == ("double precision", "native"):
        backend = "auto"
    verifier = toy_model if row in KINDS else TOYS[VARIANTS.get(row, (row,))[0]].verifier
    generator = generator_of(row, name, backend)
    outputs = generator.generate(generator.models, sample, prefix_tokens=prefix)
    check_beams(outputs, wanted(verifier, name))
    if row not in ("gad, bf16", "gad, as packed"):  # rounded in other places on each backend
        counted = counts(generator.stats)
        assert known.setdefault((row, name), counted) == counted
    if one.extra is not None:
        assert generator.symbols_to_strip_from_output == {FIRST, FIRST + 5}
    if name == "no flags" or name.startswith("of shape"):
        assert_diverse([best["tokens"].tolist() for best, *_ in wanted(verifier, name)])
        assert (generator.stats.drafted > 0) == (row not in ("greedy", "none", "empty", "given"))


@pytest.mark.parametrize("row", [case for case, toys in TOYS.items() if toys.settings])
def test_drafters_under_relaxed_flags(row, backend, known):
    generator = generator_of(row, "no flags", backend, lossless=False)
    outputs = tokens(decode(generator, SAMPLE))
    iterations, emitted, drafted, accepted = counts(generator.stats)
    # A draft ends at a chance, which each backend rounds in its own way.
    outputs = outputs, iterations, emitted, pytest.approx(drafted, abs=2), accepted
    first = known.setdefault((row, "relaxed"), (*outputs[:3], drafted, accepted))
    assert first == outputs


@functools.cache
def native_bits(verifier, number_format):
    """Of each sentence alone, without drafts."""
    plain = make_generator(
        "greedy", models=[verifier()], backend="native", verifier_dtype=number_format
    )
    return [bits(decode(plain, make_sample([one])))[0] for one in SENTENCES]


@pytest.mark.parametrize("row, number_format", half(DRAFTERS, PACKED))
def test_natively_no_draft_changes_a_bit(row, number_format, with_library):
    """In every number format, and whatever else is in the batch."""
    case = VARIANTS.get(row, (row,))[0]
    if case in ("bild", "bild-early-exit"):
        pytest.skip("keeps no draft where it is lossless")
    expected = native_bits(toy_model if row in KINDS else TOYS[case].verifier, number_format)
    assert len(set(map(str, expected))) > 10
    drafted = generator_of(row, "no flags", "native", verifier_dtype=number_format)
    for sample in (SAMPLE, make_sample(SENTENCES, left=False)):
        assert bits(decode(drafted, sample)) == expected


RULES = {
    "exact": ExactRule,
    "top-beta": lambda: TopBetaRule(3, 4.0),
    "top-beta without tau": lambda: TopBetaRule(2, math.inf),
    "distance": lambda: DistanceRule(4),
    "rollback": lambda: RollbackRule(3.0),
    "minimum": lambda: MinimumBlockRule(ExactRule(), 3),
    "minimum of top-beta": lambda: MinimumBlockRule(TopBetaRule(4, 9.0), 2),
    # One token in each distribution: nothing is left to chance.
    "sampling": lambda: SamplingRule(Sampler(topk=1)),
    "blocks": lambda: BlockVerificationRule(Sampler(topk=1)),
}
LIMIT, SIZE = 14, 4
# Word n is the number n.
NUMBERS = make_task().tgt_dict
NUMBERS.symbols[FIRST:] = [str(number) for number in range(WORDS)]


def certain(tokens):
    """Log-probabilities as if each token had been drawn from a distribution of one token."""
    return torch.nn.functional.one_hot(tokens, FIRST + WORDS).float().log()


def slow_decoding(source, script, rule):
    """(tokens, iterations) of a sentence whose draft at each place is what the script has there;
    the rule, which tests/acceptance compares with its definition, judges whole passes of stock."""
    model, output, iterations = toy_model(), [], 0
    rule.read_vocabulary(NUMBERS.symbols)
    net_input = make_sample([source])["net_input"]
    while EOS not in output:
        done, iterations = len(output), iterations + 1
        draft = torch.tensor([script[done : done + SIZE][: LIMIT - done]], dtype=torch.long)
        previous = torch.tensor([[EOS, *output, *draft[0].tolist()]])
        with torch.no_grad():
            scores = model(prev_output_tokens=previous, **net_input)[0][:, done:].log_softmax(2)
        scores[..., PAD] = -math.inf
        if done == 0:
            scores[:, 0, EOS] = -math.inf  # --min-len 1
        if done + draft.size(1) == LIMIT:
            scores[:, -1, :EOS] = scores[:, -1, EOS + 1 :] = -math.inf
        given = Draft(draft, torch.tensor([draft.size(1)]), certain(draft))
        verdict = rule.accept(given, Scores(scores, normalised=True))
        output += [*draft[0, : int(verdict.counts)].tolist(), int(verdict.next_token)]
    return output[: output.index(EOS) + 1], iterations


@functools.cache
def scripts():
    """fairseq's outputs, in which the second or third likeliest word often stands."""
    scripted = []
    outputs = tokens(greedy("no flags"))
    for number, (source, output) in enumerate(zip(SENTENCES, outputs)):
        net_input = make_sample([source])["net_input"]
        with torch.no_grad():
            previous = torch.tensor([[EOS, *output[:-1]]])
            logits = toy_model()(prev_output_tokens=previous, **net_input)[0][0]
        ranked = logits.topk(3).indices.tolist()
        ranks = [(place * 7 + number) % 5 - 2 for place in range(len(output) - 1)]
        words = [ranked[place][max(0, rank)] for place, rank in enumerate(ranks)]
        scripted.append([token if token >= FIRST else FIRST + number for token in words])
    return scripted


class Certain(ScriptedDrafter):
    """A draft with log-probabilities."""

    def open(self, source):
        session = super().open(source)
        propose = session.propose

        def with_chances(*given):
            draft = propose(*given)
            return draft._replace(log_probs=certain(draft.tokens))

        session.propose = with_chances
        return session


@functools.cache
def by_the_rule(name):
    return [slow_decoding(*one, RULES[name]()) for one in zip(SENTENCES, scripts())]


@pytest.mark.parametrize("name", RULES)
def test_rules(name, backend):
    """Each sentence, and how many iterations it took; a prefix is kept too, in one pass, which
    where the rule says that it keeps forced tokens."""
    for prefix in (None, FORCED):
        rule = RULES[name]()
        drafter = Certain(scripts(), "perfect", WORDS, SIZE) if prefix is None else None
        args = flags(max_len_b=LIMIT) if prefix is None else flags()
        generator = build_generator(
            [copy.deepcopy(toy_model())], NUMBERS, NUMBERS, args,
            decoding_settings(strategy="greedy", backend=backend),
            overrides=Overrides(drafter, rule, always_draft=True),
            free_unpacked=linear.PACKED_FROM == 0,
        )  # fmt: skip
        outputs = decode(generator, SAMPLE, prefix)
        if prefix is None:
            assert [(h["tokens"].tolist(), h["steps"]) for h in outputs] == by_the_rule(name)
            same = tokens(outputs) == tokens(greedy("no flags"))
            assert same == (name in ("exact", "sampling", "blocks"))
            assert 0.1 < generator.stats.acceptance_rate < 0.95
            continue
        assert tokens(outputs) == tokens(greedy("forced"))
        for one, forced_tokens in zip(outputs, prefix.tolist()):
            kept = sum(token not in (PAD, EOS) for token in forced_tokens) * rule.keeps_forced
            assert one["steps"] == len(one["tokens"]) - kept
        assert rule.keeps_forced == (name not in ("rollback", "sampling", "blocks"))


# Drafts for beams reach nowhere, a little, far, and over the rest of a source that is not copied.
REACHES = [(0, 0), (3, 4), (30, 100)]


def search(case, beam, name, backend):
    """A generator that has searched as fairseq has."""
    one, (sample, prefix) = SITUATIONS[name], SITUATIONS[name].batch()
    models = models_in(name, TOYS[case].verifier)
    if (name, backend) == ("double precision", "native"):
        backend = "auto"
    args = flags(beam, **one.changes)
    generator = make_generator(case, args, models, backend=backend, extra=one.extra)
    outputs = generator.generate(generator.models, sample, prefix_tokens=prefix)
    check_beams(outputs, wanted(TOYS[case].verifier, name, beam))
    return generator


@pytest.mark.parametrize(
    "beam, reach, backend", half([1, 2, 3, 5, 10, WORDS + 2], REACHES, BOTH), indirect=["backend"],
    ids=str,
)  # fmt: skip
def test_beams(beam, reach, backend, monkeypatch):
    """Every hypothesis of every width is fairseq's, whatever is drafted."""
    look_ahead(monkeypatch, *reach)
    drafted = search("iad", beam, "no flags", backend).stats.drafted
    assert (drafted > 0) == (beam == 1 or (backend == "native" and reach[0] > 0))


# Which of two equal words is in a beam is left open.
@pytest.mark.parametrize(
    "case, name, backend",
    half(
        ["greedy", "iad"],
        [name for name in SITUATIONS if name not in ("ties", "two ends forced")],
        BOTH,
    ),
    indirect=["backend"],
)
def test_beams_under_constraints(case, name, backend, monkeypatch):
    look_ahead(monkeypatch, 3, 4)
    search(case, 4, name, backend)


# Their rules decode one hypothesis, strict or not.
REFUSED = ("gad++", "specdec", "specdec-heads", "bild", "bild-early-exit")


@pytest.mark.parametrize(
    "case, name, backend",
    half([case for case in verifying() if case not in REFUSED], ["no flags", "a token", *FEW[1:]],
         BOTH),
    indirect=["backend"],
)  # fmt: skip
def test_beams_of_every_drafter(case, name, backend):
    search(case, 4, name, backend)
