"""Speculative sampling: what comes out is distributed as the verifier's own samples are."""

import copy
import dataclasses
import functools
import itertools
import math
from argparse import Namespace

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.transformer import TransformerModel, base_architecture
from fairseq.search import Sampling
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from hypothesis import given, settings
from hypothesis import strategies as st
from judging import edited, judge

from fairseq_specdec.acceptance import Sampler, SamplingRule
from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.builder import Overrides, build_generator
from fairseq_specdec.decoding.draft_budget import CPU_SPARE
from fairseq_specdec.drafting import Drafter, DraftSession
from fairseq_specdec.models.spec_drafter import SpecDrafter

PAD, EOS, UNK = 1, 2, 3
MAX_LEN = 3
SAMPLES = 2000


def excess(counts, expected):
    """How far a chi-square statistic is above what chance allows, in standard deviations.

    Outcomes that are expected fewer than five times are counted together. The cube root of a
    chi-square is nearly normal (Wilson and Hilferty 1931).
    """
    rare = [i for i, e in enumerate(expected) if e < 5]
    cells = [(counts[i], e) for i, e in enumerate(expected) if e >= 5]
    if rare:
        cells.append((sum(counts[i] for i in rare), sum(expected[i] for i in rare)))
    statistic = sum((c - e) ** 2 / max(e, 1e-9) for c, e in cells)
    freedom = len(cells) - 1
    spread = 2 / (9 * freedom)
    return ((statistic / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)


# --- the rule alone


def random_distributions(seed, *shape):
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(*shape, generator=generator)).log_softmax(-1)


@pytest.mark.parametrize("sampler", [Sampler(), Sampler(topk=3), Sampler(topp=0.7)])
def test_one_draft_token_comes_out_as_p(sampler):
    torch.manual_seed(0)
    rows = 40000
    p, q = random_distributions(1, 2, 6)
    guess = sampler.warp(q)
    draft = sampler.draw(guess.expand(rows, 6)).unsqueeze(1)
    verdict = judge(
        SamplingRule(sampler),
        draft,
        torch.ones(rows, dtype=torch.long),
        p.expand(rows, 2, 6),
        guess.log().expand(rows, 1, 6),
    )
    first = torch.where(verdict.counts == 1, draft[:, 0], verdict.next_token)
    expected = sampler.warp(p) * rows
    assert excess(first.bincount(minlength=6).tolist(), expected.tolist()) < 4
    # Leviathan et al. 2023, theorem 3.5: the share that is kept.
    kept = float(torch.minimum(sampler.warp(p), guess).sum())
    assert abs(float(verdict.counts.float().mean()) - kept) < 0.01
    bonus = verdict.next_token[verdict.counts == 1]
    share = expected * len(bonus) / rows
    assert excess(bonus.bincount(minlength=6).tolist(), share.tolist()) < 4


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 4))
def test_impossible_tokens_never_come_out(seed, width):
    p, q = random_distributions(seed, 3, 5, 6), random_distributions(seed + 1, 3, 4, 6)
    p[..., 2:5] = float("-inf")
    sampler = Sampler(generator=torch.Generator().manual_seed(seed))
    draft = sampler.draw(q.exp())[:, :width]
    lengths = torch.tensor([width, width // 2, 0])
    verdict = judge(SamplingRule(sampler), draft, lengths, p[:, : width + 1], q[:, :width])
    assert not bool(torch.isin(verdict.next_token, torch.tensor([2, 3, 4])).any())
    for row, count in enumerate(verdict.counts.tolist()):
        assert count <= int(lengths[row])
        assert not set(draft[row, :count].tolist()) & {2, 3, 4}


def test_equal_models_accept_everything():
    p = random_distributions(3, 500, 5, 6)
    sampler = Sampler()
    draft = sampler.draw(sampler.warp(p[:, :4]))
    lengths = torch.full((500,), 4)
    verdict = judge(SamplingRule(sampler), draft, lengths, p, sampler.warp(p[:, :4]).log())
    assert verdict.counts.tolist() == [4] * 500


def test_what_is_rejected_by_rounding_alone_is_drawn_from_p():
    """p and q of the first row differ in the last bit: p - q has no positive part."""
    p = torch.tensor([0.0, 0.25, 0.75]).log().expand(2, 2, 3)
    q = torch.tensor([[[0.0, 0.25, 0.75]], [[0.0, 0.125, 0.875]]]).mul(1 + 1e-6).log()
    rule = SamplingRule(Sampler())
    accept_the_likelier(rule)
    verdict = judge(rule, torch.tensor([[2], [2]]), torch.tensor([1, 1]), p, q)
    assert verdict.counts.tolist() == [0, 0]
    assert int(verdict.next_token[0]) in (1, 2) and int(verdict.next_token[1]) == 1


def test_the_first_rejected_token_decides_what_is_drawn_instead():
    """Each row is rejected at another place, where p is above q for one token only."""
    p = torch.tensor([0.5, 0.25, 0.25]).expand(4, 4, 3).clone()
    q = torch.tensor([0.5, 0.25, 0.25]).expand(4, 3, 3).clone()
    for row, (more, less) in enumerate([(1, 0), (2, 0), (1, 0)]):
        q[row, row, less] += 0.125
        q[row, row, more] -= 0.125
    p[3, 3] = torch.tensor([0.0, 0.0, 1.0])  # kept whole: drawn from p
    rule = SamplingRule(Sampler())
    accept_the_likelier(rule)
    rule.sampler.uniform = lambda like: torch.full_like(like, 0.999)
    draft, lengths = torch.zeros(4, 3, dtype=torch.long), torch.full((4,), 3)
    verdict = judge(rule, draft, lengths, p.log(), q.log())
    assert verdict.counts.tolist() == [0, 1, 2, 3]
    assert verdict.next_token.tolist() == [1, 2, 1, 2]


def test_a_forbidden_token_is_rejected_whatever_is_drawn():
    p = torch.tensor([0.0, 1.0]).log().expand(1, 2, 2)
    rule = SamplingRule(Sampler())
    accept_all(rule)
    verdict = judge(
        rule, torch.tensor([[0]]), torch.tensor([1]), p, torch.tensor([[[0.5, 0.5]]]).log()
    )
    assert verdict.counts.tolist() == [0] and verdict.next_token.tolist() == [1]


def test_drafts_without_probabilities_are_refused():
    p = random_distributions(3, 1, 2, 6)
    with pytest.raises(ValueError, match="--sampling: the drafter"):
        judge(SamplingRule(Sampler()), torch.tensor([[3]]), torch.tensor([1]), p)


@settings(deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1e-6, 0.3, 0.8, 0.999, 1.0]))
def test_top_p_keeps_what_stock_keeps(seed, topp):
    log_probs = random_distributions(seed, 4, 1, 9)
    probabilities, indices = Sampling(Dictionary(), -1, topp)._sample_topp(log_probs.clone())
    theirs = torch.zeros(4, 1, 9).scatter_(2, indices, probabilities)
    theirs = theirs / theirs.sum(-1, keepdim=True)
    torch.testing.assert_close(Sampler(topp=topp).warp(log_probs), theirs)


def test_a_generator_alone_decides_what_is_drawn():
    p = random_distributions(7, 200, 9).exp()
    found = []
    for torch_seed, seed in ((1, 5), (2, 5), (2, 6)):
        torch.manual_seed(torch_seed)
        sampler = Sampler(generator=torch.Generator().manual_seed(seed))
        found.append((sampler.draw(p).tolist(), sampler.uniform(p).tolist()))
    assert found[0] == found[1] and found[1][0] != found[2][0] and found[1][1] != found[2][1]


def test_top_p_stops_at_the_token_that_reaches_p():
    warped = Sampler(topp=0.5).warp(torch.tensor([0.25, 0.5, 0.25]).log())
    assert warped.tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    "values, flag",
    [
        ({"topk": 0}, "--sampling-topk 0: must be 1 or more"),
        ({"topk": -3}, "--sampling-topk -3"),
        ({"topp": 0.0}, "--sampling-topp 0.0: must be greater than 0"),
        ({"topp": 1.5}, "--sampling-topp 1.5"),
        ({"topp": float("nan")}, "--sampling-topp nan"),
        ({"topk": 2, "topp": 0.5}, "--sampling-topk, --sampling-topp: give one"),
    ],
    ids=str,
)
def test_impossible_values_name_the_flag(values, flag):
    with pytest.raises(ValueError) as caught:
        Sampler(**values)
    assert flag in str(caught.value)


# --- whole outputs


def words():
    result = Dictionary()
    for word in "abc":
        result.add_symbol(word)
    return result


def task():
    return TranslationTask(TranslationConfig(), words(), words())


SHAPE = {"encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
for side in ("encoder", "decoder"):
    SHAPE.update({f"{side}_embed_dim": 16, f"{side}_ffn_embed_dim": 16})
    SHAPE[f"{side}_attention_heads"] = 2


def tiny_model(seed, sharpness):
    """An untrained Transformer whose distributions are far from uniform."""
    torch.manual_seed(seed)
    args = Namespace(**SHAPE)
    base_architecture(args)
    model = TransformerModel.build_model(args, task()).eval()
    model.decoder.output_projection.weight.data.mul_(sharpness)
    return model


def tiny_block_drafter():
    torch.manual_seed(4)
    args = Namespace(arch="spec_drafter_tiny", block_size=2, **SHAPE)
    ARCH_CONFIG_REGISTRY[args.arch](args)
    return SpecDrafter.build_model(args, task()).eval()


VERIFIER = tiny_model(1, 2.0)
DRAFTERS = {"greedy": None, "sps": tiny_model(2, 2.0), "gad": tiny_block_drafter()}
SOURCES = [[4, 5, EOS], [6, EOS]]


def generator_for(
    strategy, args, tmp_path, budget=0, models=(VERIFIER,), overrides=None, **settings
):
    path = tmp_path / "drafter.pt"
    path.write_bytes(b"")
    if DRAFTERS[strategy] is not None:
        settings = dict(settings, drafter_path=str(path), block_size=2)
    given = Namespace(sampling=True, max_len_a=0, max_len_b=MAX_LEN, unkpen=1e4, **args)
    # The default budget leaves thousands of rows nothing to draft.
    if strategy != "greedy":
        settings = dict({"sampling_verification": "token"}, draft_budget=budget, **settings)
    return build_generator(
        list(models),
        words(),
        words(),
        given,
        decoding_settings(strategy=strategy, **settings),
        load=lambda *_: copy.deepcopy(DRAFTERS[strategy]),
        overrides=overrides or Overrides(),
    )


def draw(generator, samples=SAMPLES, seed=0, rows=2000):
    """Counts of the outputs of each source, and the outputs with their scores."""
    torch.manual_seed(seed)
    source = torch.full((rows, 3), PAD)
    source[::2], source[1::2, 1:] = torch.tensor(SOURCES[0]), torch.tensor(SOURCES[1])
    lengths = torch.tensor([3, 2]).repeat(rows // 2)
    counts, scores = [{}, {}], [{}, {}]
    assert 2 * samples % rows == 0
    for _ in range(2 * samples // rows):
        sample = {"net_input": {"src_tokens": source, "src_lengths": lengths}}
        for row, (hypo,) in enumerate(generator.generate(generator.models, sample)):
            output = tuple(hypo["tokens"].tolist())
            counts[row % 2][output] = counts[row % 2].get(output, 0) + 1
            scores[row % 2][output] = hypo["positional_scores"]
    return counts, scores


def enumerate_outputs(source, args, models):
    """{output: (its probability, log-probabilities as stock reports them)}, by the equations."""
    symbols = [s for s in range(len(words())) if s not in (PAD, EOS, UNK)]
    net_input = {"src_tokens": torch.tensor([source]), "src_lengths": torch.tensor([len(source)])}

    def after(prefix):
        chances = []
        for model in models:
            with torch.no_grad():
                logits, _ = model(prev_output_tokens=torch.tensor([[EOS, *prefix]]), **net_input)
            chances.append((logits[0, -1] / args.get("temperature", 1.0)).softmax(-1))
        p = torch.stack(chances).mean(0).tolist()
        likely = {s: p[s] for s in symbols + [EOS]}
        if not prefix:
            del likely[EOS]  # --min-len 1
        if len(prefix) == MAX_LEN:
            likely = {EOS: p[EOS]}
        ranked = sorted(likely, key=likely.__getitem__, reverse=True)
        kept = ranked[: args.get("sampling_topk", len(ranked))]
        if "sampling_topp" in args:
            mass = [0.0, *itertools.accumulate(likely[s] for s in ranked)]
            kept = [s for s, before in zip(ranked, mass) if before < args["sampling_topp"]]
        total = sum(likely[s] for s in kept)
        return {s: (likely[s] / total, math.log(likely[s])) for s in kept}

    outputs, open_prefixes = {}, {(): (1.0, [])}
    while open_prefixes:
        grown = {}
        for prefix, (chance, scores) in open_prefixes.items():
            for symbol, (p, score) in after(prefix).items():
                entry = (chance * p, scores + [score])
                (outputs if symbol == EOS else grown)[(*prefix, symbol)] = entry
        open_prefixes = grown
    return outputs


def worst_excess(generator, args, rows=2000, samples=SAMPLES):
    """The larger excess of the two sources; outputs that are impossible fail at once."""
    counts, scores = draw(generator, samples, rows=rows)
    found = []
    for i, source in enumerate(SOURCES):
        table = enumerate_outputs(source, args, generator.models)
        assert abs(sum(p for p, _ in table.values()) - 1) < 1e-4
        assert set(counts[i]) <= set(table), "an output that the verifier never gives"
        assert sum(counts[i].values()) == samples
        for output, own in scores[i].items():
            torch.testing.assert_close(own, torch.tensor(table[output][1]), atol=1e-3, rtol=0)
        expected = [samples * p for p, _ in table.values()]
        found.append(excess([counts[i].get(o, 0) for o in table], expected))
    return max(found)


SETTINGS = [
    {},
    {"temperature": 0.6},
    {"temperature": 2.0},
    {"sampling_topk": 2},
    {"sampling_topk": 3},
    {"sampling_topp": 0.5},
    {"sampling_topp": 0.8},
    {"sampling_topk": 3, "temperature": 1.7},
    {"sampling_topp": 0.8, "temperature": 0.6},
]


@pytest.mark.parametrize("args", SETTINGS, ids=str)
@pytest.mark.parametrize("strategy", ["greedy", "sps", "gad"])
def test_outputs_are_distributed_as_the_verifiers(strategy, args, tmp_path):
    generator = generator_for(strategy, args, tmp_path)
    assert worst_excess(generator, args) < 4
    assert strategy == "greedy" or 0.1 < generator.stats.acceptance_rate < 0.95


@pytest.mark.parametrize("args", SETTINGS[::7], ids=str)
@pytest.mark.parametrize("strategy", ["sps", "gad"])
def test_outputs_of_small_batches_under_a_budget_are_distributed_so_too(strategy, args, tmp_path):
    """Drafts of every length: the budget cuts them as rows come and go."""
    generator = generator_for(strategy, args, tmp_path, budget=CPU_SPARE)
    assert worst_excess(generator, args, rows=8) < 4
    assert generator.stats.drafted > 0


@pytest.mark.parametrize("strategy", ["greedy", "sps", "gad"])
def test_outputs_of_an_ensemble_are_distributed_so_too(strategy, tmp_path):
    args = {"sampling_topp": 0.8, "temperature": 1.5}
    models = [VERIFIER, tiny_model(3, 2.0)]
    assert worst_excess(generator_for(strategy, args, tmp_path, models=models), args) < 4


class Uniform(Sampler):
    """A sampler whose numbers from [0, 1) are these."""

    def __init__(self, uniform, sampler):
        super().__init__(sampler.topk, sampler.topp)
        self.uniform = uniform


def accept_all(rule):
    rule.sampler = Uniform(torch.zeros_like, rule.sampler)


def accept_the_likelier(rule):
    rule.sampler = Uniform(torch.ones_like, rule.sampler)


def one_number_for_all_rows(rule):
    rule.sampler = Uniform(lambda like: torch.rand(1).expand(like.shape), rule.sampler)


def edit(before, after):
    """The mutant that reads otherwise in one place."""

    def mutate(rule):
        for name in ("accept", "verdict"):
            mutant = edited(getattr(SamplingRule, name), before, after)
            if mutant is not None:
                setattr(rule, name, functools.partial(mutant, rule))
                return
        raise AssertionError(f"no {before}")

    mutate.__name__ = f"{before} is {after}"
    return mutate


def mutated(mutant, strategy, args, tmp_path):
    """A generator whose rule is broken."""
    rule = generator_for(strategy, args, tmp_path).rule
    mutant(rule)
    return generator_for(strategy, args, tmp_path, overrides=Overrides(rule=rule))


RULE_MUTANTS = [
    accept_all,
    accept_the_likelier,
    one_number_for_all_rows,
    edit("* drawn < own", "< own"),
    edit("(verdict - guess).clamp", "verdict.clamp"),
]
# They are wrong in few places, or by little.
SUBTLE_MUTANTS = [
    edit(".masked_fill(~rejected, 0.0)", ""),
    edit("q[rows, counts.clamp(max=width - 1)]", "q[rows, 0 * counts]"),
]
CUT_AND_FLAT = {"sampling_topk": 3, "temperature": 1.7}


@pytest.mark.parametrize("args", [{}, CUT_AND_FLAT], ids=str)
@pytest.mark.parametrize("strategy", ["sps", "gad"])
@pytest.mark.parametrize("mutant", RULE_MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_broken_rule_is_noticed(mutant, strategy, args, tmp_path):
    generator = mutated(mutant, strategy, args, tmp_path)
    assert worst_excess(generator, args) > 10


@pytest.mark.parametrize("strategy", ["sps", "gad"])
@pytest.mark.parametrize("mutant", SUBTLE_MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_rule_broken_in_few_places_is_noticed(mutant, strategy, tmp_path):
    generator = mutated(mutant, strategy, CUT_AND_FLAT, tmp_path)
    assert worst_excess(generator, CUT_AND_FLAT, samples=8000) > 8


@pytest.mark.parametrize("rest", ["(guess - verdict)", "(guess)"])
@pytest.mark.parametrize("strategy", ["sps", "gad"])
def test_a_rule_that_replaces_by_the_drafters_choice_is_noticed(rest, strategy, tmp_path):
    """It draws what the verifier forbids."""
    mutant = edit("(verdict - guess)", rest)
    generator = mutated(mutant, strategy, CUT_AND_FLAT, tmp_path)
    with pytest.raises(AssertionError, match="an output that the verifier never gives"):
        worst_excess(generator, CUT_AND_FLAT)


@pytest.mark.parametrize("args", [{"sampling_topk": 2}, {"sampling_topp": 0.5}], ids=str)
@pytest.mark.parametrize("strategy", ["greedy", "sps", "gad"])
def test_a_rule_that_forgets_the_cut_is_noticed(strategy, args, tmp_path):
    mutant = edit("self.sampler.warp(log_probs)", "log_probs.exp()")
    if strategy == "greedy":
        mutant = edit("sampler.sample(log_probs[:, 0])", "sampler.draw(log_probs[:, 0].exp())")
    generator = mutated(mutant, strategy, args, tmp_path)
    with pytest.raises(AssertionError, match="an output that the verifier never gives"):
        worst_excess(generator, args)


class GreedyDraw(Sampler):
    """The mutant: tokens are the likeliest, and the ratio is as if they had been drawn."""

    def draw(self, probabilities):
        return probabilities.argmax(-1)


class Flattened(Drafter):
    """The mutant: says that its tokens were drawn from flatter distributions than they were."""

    def __init__(self, inner):
        self.inner = inner

    def prepare(self, verifier, backend):
        return Flattened(self.inner.prepare(verifier, backend))

    def open(self, source):
        return FlattenedSession(self.inner.open(source))


class FlattenedSession(DraftSession):
    def __init__(self, inner):
        self.inner = inner
        self.commit, self.select, self.close = inner.commit, inner.select, inner.close

    def propose(self, hypotheses, budget=None):
        draft = self.inner.propose(hypotheses, budget)
        if draft.log_probs is None:
            return draft
        return draft._replace(log_probs=(draft.log_probs / 3).log_softmax(-1))


@pytest.mark.parametrize("strategy", ["sps", "gad"])
@pytest.mark.parametrize("mutant", ["greedy draft", "q of another temperature"])
def test_the_test_notices_mutants(mutant, strategy, tmp_path):
    drafter = generator_for(strategy, {}, tmp_path).drafter
    if mutant == "greedy draft":
        options = dataclasses.replace(drafter.options, sampler=GreedyDraw())
        overrides = Overrides(drafter=type(drafter)(drafter.model, options))
    else:
        overrides = Overrides(drafter=Flattened(drafter))
    assert worst_excess(generator_for(strategy, {}, tmp_path, overrides=overrides), {}) > 10


@pytest.mark.parametrize("strategy", ["greedy", "sps", "gad"])
def test_a_seed_reproduces_and_another_one_differs(strategy, tmp_path):
    first = draw(generator_for(strategy, {}, tmp_path), 1000, seed=5)[0]
    assert first == draw(generator_for(strategy, {}, tmp_path), 1000, seed=5)[0]
    assert first != draw(generator_for(strategy, {}, tmp_path), 1000, seed=6)[0]


def test_sampling_from_one_token_is_stocks(tmp_path):
    """--sampling-topk 1 leaves no chance: tokens and scores are stock's own."""
    args = {"sampling_topk": 1, "temperature": 0.7}
    stock = task().build_generator(
        [VERIFIER], Namespace(sampling=True, max_len_b=MAX_LEN, unkpen=1e4, beam=1, **args)
    )
    source = torch.tensor([SOURCES[0]])
    sample = {"net_input": {"src_tokens": source, "src_lengths": torch.tensor([3])}}
    theirs = stock.generate([VERIFIER], sample)[0][0]
    ours = generator_for("sps", args, tmp_path).generate([VERIFIER], sample)[0][0]
    assert ours["tokens"].tolist() == theirs["tokens"].tolist()
    torch.testing.assert_close(ours["positional_scores"], theirs["positional_scores"])


DRAWS = [
    {},
    {"sampling_topk": 2},
    {"sampling_topk": 7, "temperature": 2.0},
    {"sampling_topp": 0.7},
    {"sampling_topp": 0.9, "temperature": 1.7},
    {"sampling_topp": 1.0},
]


@pytest.mark.parametrize("args", DRAWS, ids=str)
@pytest.mark.parametrize("backend", ["torch", "native"])
def test_without_drafts_the_draws_are_stocks(backend, args, tmp_path):
    """The same seed and batch give the same samples with fairseq's own task, of 60 sentences."""
    flags = Namespace(sampling=True, max_len_b=MAX_LEN, unkpen=1e4, beam=1, **args)
    stock = task().build_generator([VERIFIER], flags)
    ours = generator_for("greedy", args, tmp_path, backend=backend)
    source = torch.full((60, 3), PAD)
    source[::2], source[1::2, 1:] = torch.tensor(SOURCES[0]), torch.tensor(SOURCES[1])
    lengths = torch.tensor([3, 2]).repeat(30)
    found = []
    for generator in (stock, ours):
        torch.manual_seed(7)
        sample = {"net_input": {"src_tokens": source, "src_lengths": lengths}}
        hypotheses = [row[0] for row in generator.generate([VERIFIER], sample)]
        found.append([each["tokens"].tolist() for each in hypotheses])
        left = torch.rand(1)  # as much was drawn
        found.append(left)
    assert len(set(map(str, found[0]))) > 5
    assert found[0] == found[2] and torch.equal(found[1], found[3])


def test_flags_that_contradict_sampling(tmp_path):
    with pytest.raises(ValueError, match="--collapse-repeats: with --sampling"):
        generator_for("gad", {}, tmp_path, collapse_repeats=True)
    for name in ("sampling_topk", "sampling_topp"):
        flag = name.replace("_", "-")
        with pytest.raises(ValueError, match=f"--{flag}: needs --sampling"):
            build_generator(
                [VERIFIER], words(), words(), Namespace(**{name: 1}), decoding_settings()
            )
