"""Three tables: each drafter, each acceptance rule and each beam width, on each backend.

A row is compared with fairseq's own search, or with a slow version of its rule, which read a
sentence alone, in whole passes and without a cache. What has no row fails the last tests.
"""

import copy
import functools
import math

import pytest
import torch
from pairwise import half
from plain_graphs import plain_graphs
from scripted_drafter import KINDS, ScriptedDrafter
from toy_strategies import (
    cases,
    check,
    check_beams,
    decode,
    flags,
    forced,
    forced_here_and_there,
    look_ahead,
    make_generator,
    stock,
    stock_beams,
    tokens,
    toys,
    verifying,
)
from toy_translation import (
    EOS,
    FIRST,
    PAD,
    WORDS,
    assert_diverse,
    make_sample,
    make_task,
    sentences,
    toy_model,
)

from fairseq_specdec import acceptance, drafting
from fairseq_specdec.acceptance import (
    AcceptanceRule,
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
from fairseq_specdec.decoding.beam.lookahead import Reach
from fairseq_specdec.decoding.beam.native import NativeBeams
from fairseq_specdec.decoding.beam.torch_beams import TorchBeams
from fairseq_specdec.decoding.builder import Overrides, build_generator
from fairseq_specdec.decoding.strategies import OWN_FLAGS
from fairseq_specdec.drafting import Drafter
from fairseq_specdec.engine.backend import BACKENDS
from fairseq_specdec.engine.devices import PACKED
from fairseq_specdec.engine.eager import linear
from fairseq_specdec.engine.native import library

SENTENCES = sentences(12, seed=7)
SAMPLE = make_sample(SENTENCES)

# ---- the columns -------------------------------------------------------------------------------


def as_it_is(monkeypatch):
    """No toy is large enough for packed products."""


def packed(monkeypatch):
    """Products of packed weights, and no weight beside them."""
    monkeypatch.setattr(linear, "PACKED_FROM", 0)


def recorded(monkeypatch):
    """Passes and drafts of fixed shapes, as CUDA graphs record them."""
    monkeypatch.setattr(generator_module, "graphs_for", plain_graphs())


COLUMNS = {
    "torch": ("torch", as_it_is),
    "torch, packed": ("torch", packed),
    "torch, recorded": ("torch", recorded),
    "native": ("native", as_it_is),
}


# Those that do other things than the first one whatever the flags. Nothing of a beam is recorded,
# and its products are those of one hypothesis.
EXTRA = ("torch, packed", "torch, recorded")
BEAM_COLUMNS = [column for column in COLUMNS if column not in EXTRA]


@pytest.fixture(params=COLUMNS)
def backend(request, monkeypatch):
    """The flag's value; the column is made ready."""
    name, prepare = COLUMNS[request.param]
    if name == "native" and library.load() is None:
        pytest.skip(library.why_not())
    prepare(monkeypatch)
    return name


def test_each_backend_has_a_column():
    assert {name for name, _ in COLUMNS.values()} == set(BACKENDS) - {"auto"}


def counts(stats):
    return stats.iterations, stats.emitted, stats.drafted, stats.accepted


# ---- drafters ----------------------------------------------------------------------------------

# More flags of a drafter.
VARIANTS = {
    "gad, unsure": ("gad", {"draft_confidence": 0.4}),
    "gad, bf16": ("gad", {"drafter_dtype": "bf16"}),
    "gad, as packed": ("gad", {"drafter_dtype": "auto"}),
    "gad-attached, unsure": ("gad-attached", {"draft_confidence": 0.4}),
}
DRAFTERS = [*cases(), *VARIANTS, *KINDS]
CHANGES = {
    "no flags": {},
    "a token": {"max_len_b": 1},
    "nothing": {"min_len": 0, "max_len_b": 0},
    "long": {"min_len": 6},
    "of one length": {"max_len_b": 3, "min_len": 3},
    "short": {"max_len_a": 0.5, "max_len_b": 2},
    "unknown words": {"unkpen": -8.0},
    "fewer unknown words": {"unkpen": 2.5},
    "flat": {"temperature": 3.0},
    "sharp": {"temperature": 0.3},
    "no n-gram twice": {"no_repeat_ngram_size": 2},
    "normalised": {"lenpen": 0.4},
    "unnormalised": {"unnormalized": True},
    "forced": {},
    "forced, short": {"max_len_b": 3},
    "forced here and there": {"min_len": 6, "unkpen": 2.5},
}


# Where rows and columns that share code with others are tried too.
FEW = ("no flags", "no n-gram twice", "forced")
ALIKE = (
    "none", "specdec", "specdec-heads", "iad-any-suffix", "iad-edits",
)  # fmt: skip
LIKE_OTHERS = (*ALIKE, *VARIANTS, *KINDS)


# Recordings are compared operator by operator, which takes long; test_cuda_graphs.py has more.
NAMES = {"torch, packed": FEW, "torch, recorded": FEW[:1]}


def cells():
    """(drafter, flags, column) of the table."""
    for row in DRAFTERS:
        for column in COLUMNS:
            for name in FEW if row not in KINDS or column not in EXTRA else ():
                if name in NAMES.get(column, FEW):
                    yield row, name, column
    rows = [row for row in DRAFTERS if row not in LIKE_OTHERS]
    yield from half(rows, [name for name in CHANGES if name not in FEW], BEAM_COLUMNS)


def prefix_of(name):
    if "forced" not in name:
        return None
    return (forced_here_and_there if "there" in name else forced)(len(SENTENCES))


@functools.cache
def greedy(verifier, name):
    """What fairseq says."""
    return stock([verifier()], SAMPLE, flags(**CHANGES[name]), prefix_of(name))


def generator_of(row, name, backend, lossless=True, **settings):
    args = flags(**CHANGES[name])
    if row in KINDS:
        drafter = ScriptedDrafter(tokens(greedy(toy_model, name)), row, WORDS)
        return make_generator(
            "greedy", args, overrides=Overrides(drafter), backend=backend, **settings
        )
    case, more = VARIANTS.get(row, (row, {}))
    if toys(case).strategy in OWN_FLAGS["drafter_dtype"]:
        more = {"drafter_dtype": "same", **more}
    models = [copy.deepcopy(toys(case).verifier())]
    free = linear.PACKED_FROM == 0
    return make_generator(
        case, args, models, lossless, free, backend=backend, **{**more, **settings}
    )


@pytest.fixture(scope="module")
def known():
    """Counts of the first column, by row and flags."""
    return {}


@pytest.mark.parametrize("row, name, backend", [*cells()], indirect=["backend"])
def test_drafters(row, name, backend, known):
    """Outputs are fairseq's, and each draft and verdict is that of torch's operators."""
    case = VARIANTS.get(row, (row,))[0]
    verifier = toy_model if row in KINDS else toys(case).verifier
    if row not in KINDS and toys(case).lossless is None:
        pytest.skip("never lossless")
    generator = generator_of(row, name, backend)
    check(decode(generator, SAMPLE, prefix_of(name)), greedy(verifier, name))
    if row not in ("gad, bf16", "gad, as packed"):  # rounded in other places on each backend
        counted = counts(generator.stats)
        assert known.setdefault((row, name), counted) == counted
    if name == "no flags":
        assert_diverse(tokens(greedy(verifier, name)))
        drafts = row not in ("greedy", "none", "empty")
        assert (generator.stats.drafted > 0) == drafts


@pytest.mark.parametrize("row", [case for case in cases() if toys(case).settings])
def test_drafters_under_relaxed_flags(row, backend, known):
    generator = generator_of(row, "no flags", backend, lossless=False)
    outputs = tokens(decode(generator, SAMPLE))
    iterations, emitted, drafted, accepted = counts(generator.stats)
    # A draft ends at a chance, which each backend rounds in its own way.
    outputs = outputs, iterations, emitted, pytest.approx(drafted, abs=2), accepted
    first = known.setdefault((row, "relaxed"), (*outputs[:3], drafted, accepted))
    assert first == outputs


def bits(generator, sample):
    hypotheses = decode(generator, sample)
    return [(h["tokens"].tolist(), h["positional_scores"].tolist()) for h in hypotheses]


@functools.cache
def native_bits(verifier, number_format):
    """Of each sentence alone, without drafts."""
    plain = make_generator(
        "greedy", models=[verifier()], backend="native", verifier_dtype=number_format
    )
    return [bits(plain, make_sample([one]))[0] for one in SENTENCES]


@pytest.mark.parametrize("row, number_format", half(DRAFTERS, PACKED))
def test_natively_no_draft_changes_a_bit(row, number_format):
    """In every number format, and whatever else is in the batch."""
    if library.load() is None:
        pytest.skip(library.why_not())
    case = VARIANTS.get(row, (row,))[0]
    if case in ("bild", "bild-early-exit") or (row not in KINDS and toys(case).lossless is None):
        pytest.skip("keeps no draft where it is lossless")

    verifier = toy_model if row in KINDS else toys(case).verifier
    wanted = native_bits(verifier, number_format)
    assert len(set(map(str, wanted))) > 10
    drafted = generator_of(row, "no flags", "native", verifier_dtype=number_format)
    assert bits(drafted, SAMPLE) == wanted
    assert bits(drafted, make_sample(SENTENCES, left=False)) == wanted


# ---- rules -------------------------------------------------------------------------------------


def best(token, scores):
    return token == int(scores.argmax())


def among(count, tau):
    """Ge et al. 2022, equations 8 and 9."""

    def accepts(token, scores):
        return int((scores > scores[token]).sum()) < count and gap(token, scores) <= tau

    return accepts


def gap(token, scores):
    return float(scores.max() - scores[token])


def near(epsilon):
    """Stern et al. 2018, section 5.2; word n is the number n."""

    def accepts(token, scores):
        choice = int(scores.argmax())
        return token == choice or (min(token, choice) >= FIRST and abs(token - choice) <= epsilon)

    return accepts


def likelier_than(nats):
    """Kim et al. 2023, Algorithm 1."""
    return lambda token, scores: -float(scores[token]) <= nats


class Within:
    """What another rule accepts, as long as so many nats of a sentence are left."""

    def __init__(self, accepts, budget):
        self.accepts, self.left = accepts, budget

    def __call__(self, token, scores):
        if not self.accepts(token, scores) or gap(token, scores) > self.left:
            return False
        self.left -= gap(token, scores)
        return True


# {name: (the rule, a new judge of a sentence's draft tokens, draft tokens kept without judgement)}
RULES = {
    "exact": (lambda: ExactRule(), lambda: best, 0),
    "top-beta": (lambda: TopBetaRule(3, 4.0), lambda: among(3, 4.0), 0),
    "top-beta without tau": (lambda: TopBetaRule(2, math.inf), lambda: among(2, math.inf), 0),
    "distance": (lambda: DistanceRule(4), lambda: near(4), 0),
    "rollback": (lambda: RollbackRule(3.0), lambda: likelier_than(3.0), 0),
    "minimum": (lambda: MinimumBlockRule(ExactRule(), 3), lambda: best, 2),
    "minimum of top-beta": (
        lambda: MinimumBlockRule(TopBetaRule(4, 9.0), 2),
        lambda: among(4, 9.0),
        1,
    ),
    "regret": (lambda: TopBetaRule(9, 9.0, 6.0), lambda: Within(among(9, 9.0), 6.0), 0),
    # One token in each distribution: nothing is left to chance.
    "sampling": (lambda: SamplingRule(Sampler(topk=1)), lambda: best, 0),
    "blocks": (lambda: BlockVerificationRule(Sampler(topk=1)), lambda: best, 0),
}
LIMIT = 14


def slow_decoding(source, script, accepts, unjudged, size=4):
    """(tokens, iterations) of a sentence whose draft at each place is what the script has there."""
    model, output, iterations = toy_model(), [], 0
    net_input = make_sample([source])["net_input"]
    while EOS not in output:
        done, iterations = len(output), iterations + 1
        draft = script[done : done + size][: LIMIT - done]
        with torch.no_grad():
            previous = torch.tensor([[EOS, *output, *draft]])
            scores = model(prev_output_tokens=previous, **net_input)[0][0, done:].log_softmax(1)
        scores[:, PAD] = -math.inf
        if done == 0:
            scores[0, EOS] = -math.inf  # --min-len 1
        if done + len(draft) == LIMIT:
            scores[-1, :EOS] = scores[-1, EOS + 1 :] = -math.inf
        possible = [float(scores[at, token]) > -math.inf for at, token in enumerate(draft)]
        least = min([unjudged, *(at for at, fine in enumerate(possible) if not fine), len(draft)])
        count = 0
        while count < len(draft) and possible[count] and accepts(draft[count], scores[count]):
            count += 1
        count = max(count, least)
        output += [*draft[:count], int(scores[count].argmax())]
    return output[: output.index(EOS) + 1], iterations


@functools.cache
def scripts():
    """fairseq's outputs, in which the second or third likeliest word often stands."""
    scripted = []
    outputs = tokens(greedy(toy_model, "no flags"))
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
    """As if each draft token had been drawn from a distribution of one token."""

    def open(self, source):
        session = super().open(source)
        propose = session.propose

        def certain(hypotheses, budget=None):
            draft = propose(hypotheses, budget)
            chances = torch.nn.functional.one_hot(draft.tokens, FIRST + WORDS).float()
            return draft._replace(log_probs=chances.log())

        session.propose = certain
        return session


@functools.cache
def by_the_rule(name):
    _, judge, unjudged = RULES[name]
    return [slow_decoding(*one, judge(), unjudged) for one in zip(SENTENCES, scripts())]


@pytest.mark.parametrize("name", RULES)
def test_rules(name, backend):
    """Each sentence, and how many iterations it took."""
    rule, words = RULES[name][0](), make_task().tgt_dict
    words.symbols[FIRST:] = [str(number) for number in range(WORDS)]
    overrides = Overrides(Certain(scripts(), "perfect", WORDS, 4), rule, always_draft=True)
    generator = build_generator(
        [copy.deepcopy(toy_model())], words, words, flags(max_len_b=LIMIT),
        decoding_settings(strategy="greedy", backend=backend), overrides=overrides,
        free_unpacked=linear.PACKED_FROM == 0,
    )  # fmt: skip
    outputs = decode(generator, SAMPLE)
    assert [(h["tokens"].tolist(), h["steps"]) for h in outputs] == by_the_rule(name)
    same = tokens(outputs) == tokens(greedy(toy_model, "no flags"))
    assert same == (name in ("exact", "sampling", "blocks"))
    assert 0.1 < generator.stats.acceptance_rate < 0.95


@pytest.mark.parametrize("name, backend", half([*RULES], [*COLUMNS]), indirect=["backend"])
def test_rules_keep_a_prefix(name, backend):
    """In one pass, which costs no regret, where the rule says that it keeps forced tokens."""
    rule, words = RULES[name][0](), make_task().tgt_dict
    words.symbols[FIRST:] = [str(number) for number in range(WORDS)]
    generator = build_generator(
        [copy.deepcopy(toy_model())], words, words, flags(),
        decoding_settings(strategy="greedy", backend=backend),
        overrides=Overrides(None, rule, always_draft=True), free_unpacked=linear.PACKED_FROM == 0,
    )  # fmt: skip
    outputs = decode(generator, SAMPLE, prefix_of("forced"))
    assert tokens(outputs) == tokens(greedy(toy_model, "forced"))
    for one, prefix in zip(outputs, prefix_of("forced").tolist()):
        kept = sum(token not in (PAD, EOS) for token in prefix) * rule.keeps_forced
        assert one["steps"] == len(one["tokens"]) - kept
    slow = ("rollback", "sampling", "blocks")
    assert rule.keeps_forced == (name not in slow) and generator.stats.drafted == 0


# ---- beams -------------------------------------------------------------------------------------

BEAMS = [1, 2, 3, 5, 10, WORDS + 2]
BEAM_CHANGES = {
    "no flags": {},
    "no </s> first": {"min_len": 0},
    "long": {"min_len": 6},
    "short": {"max_len_a": 0.5, "max_len_b": 2},
    "a token": {"max_len_b": 1},
    "nothing": {"max_len_b": 0, "min_len": 0},  # one hypothesis, </s>
    "fewer unknown words": {"unkpen": 3.0},
    "unknown words": {"unkpen": -12.0},
    "flat": {"temperature": 2.0},
    "long ones": {"lenpen": 3.0},
    "short ones": {"lenpen": 0.2},
    "unnormalised": {"unnormalized": True},
    "unnormalised unknown words": {"unnormalized": True, "unkpen": -12.0},
    "no n-gram twice": {"no_repeat_ngram_size": 2},
    "no n-gram twice, long": {"no_repeat_ngram_size": 3, "min_len": 9, "max_len_b": 12},
    "forced": {},
    "forced, short": {"max_len_b": 3},
    "forced, no n-gram twice": {"no_repeat_ngram_size": 2},
    "forced here and there": {"min_len": 6, "unkpen": 2.5},
}
# Drafts for beams reach nowhere, a little, far, and over the rest of a source that is not copied.
REACHES = [(0, 0), (3, 4), (30, 100), (3, 9, -1.0, 2)]


@functools.cache
def beams(verifier, beam, name):
    args = flags(beam, **BEAM_CHANGES[name])
    return stock_beams([verifier()], SAMPLE, args, prefix_of(name))


def search(case, beam, name, backend):
    """(hypotheses, generator) of a drafter that may draft for beams."""
    args = flags(beam, **BEAM_CHANGES[name])
    generator = make_generator(case, args, backend=backend)
    return generator.generate(generator.models, SAMPLE, prefix_tokens=prefix_of(name)), generator


@pytest.mark.parametrize(
    "beam, reach, backend", half(BEAMS, REACHES, BEAM_COLUMNS), indirect=["backend"], ids=str
)
def test_beams(beam, reach, backend, monkeypatch):
    """Every hypothesis of every width is fairseq's, whatever is drafted."""
    look_ahead(monkeypatch, Reach(*reach))
    ranked, generator = search("iad", beam, "no flags", backend)
    check_beams(ranked, beams(toy_model, beam, "no flags"))
    assert generator.stats.drafted > 0


@pytest.mark.parametrize(
    "case, name, backend", half(["greedy", "iad"], [*BEAM_CHANGES], BEAM_COLUMNS),
    indirect=["backend"],
)  # fmt: skip
def test_beams_under_constraints(case, name, backend, monkeypatch):
    look_ahead(monkeypatch, Reach(3, 4))
    check_beams(search(case, 4, name, backend)[0], beams(toy_model, 4, name))


# Their rules decode one hypothesis, strict or not.
REFUSED = ("gad++", "gad++-budget", "specdec", "specdec-heads", "bild", "bild-early-exit")


@pytest.mark.parametrize("case", REFUSED)
def test_a_relaxed_rule_has_no_beams(case):
    with pytest.raises(ValueError, match="^--nbest 4: --strategy"):
        search(case, 4, "no flags", "auto")


SEARCHED = [case for case in verifying() if case not in REFUSED]


@pytest.mark.parametrize(
    "case, name, backend",
    half(SEARCHED, ["no flags", "unknown words", "no n-gram twice", "a token", "forced"],
         BEAM_COLUMNS),
    indirect=["backend"],
)  # fmt: skip
def test_beams_of_every_drafter(case, name, backend):
    check_beams(search(case, 4, name, backend)[0], beams(toys(case).verifier, 4, name))


def test_each_search_of_beams_is_compared():
    """Both kinds, and no other."""
    searches = set()
    for name in set(BACKENDS) - {"auto"} - ({"native"} if library.load() is None else set()):
        generator = make_generator("greedy", flags(4), backend=name)
        with generator.batch(generator.models, SAMPLE) as batch:
            searches.add(type(batch))
    assert searches == {TorchBeams} | ({NativeBeams} if library.load() else set())


# ---- what has no row ---------------------------------------------------------------------------


def classes_of(package, base):
    exported = [getattr(package, name) for name in package.__all__]
    return {each for each in exported if isinstance(each, type) and issubclass(each, base)} - {base}


def test_each_drafter_has_a_row():
    rows = {type(make_generator(case).drafter) for case in cases()}
    assert rows >= classes_of(drafting, Drafter), "add a strategy with it to TOYS"


def test_each_rule_has_a_row():
    rows = {type(make()) for make, _, _ in RULES.values()}
    assert rows == classes_of(acceptance, AcceptanceRule), "add it to RULES"
