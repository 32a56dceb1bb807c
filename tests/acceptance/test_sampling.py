"""Speculative sampling: what comes out is distributed as the verifier's own samples are."""

import copy
import itertools
import math
from argparse import Namespace

import pytest
import torch
from judging import judge
from pairwise import half
from toy_drafter import make_drafter, make_verifier
from toy_translation import EOS, PAD, UNK, both, ids, make_sample, make_task

from fairseq_specdec.acceptance import BlockVerificationRule, Sampler, SamplingRule
from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.builder import build_generator

MAX_LEN = 3
SAMPLES = 2000

# ---- the rules alone -----------------------------------------------------------------------------


class Told(Sampler):
    """Has the numbers that it is given, and notes the distributions that it draws from."""

    def __init__(self, numbers):
        super().__init__()
        self.numbers, self.drawn_from = numbers, None

    def uniform(self, like):
        assert like.shape == self.numbers.shape
        return self.numbers

    def draw(self, probabilities):
        self.drawn_from = probabilities / probabilities.sum(1, keepdim=True)
        return probabilities.argmax(1)


def left_of(p, q):
    """The normalised positive part of p - q; where there is none, p."""
    positive = (p - q).clamp(min=0)
    rest = positive if positive.sum() > 0 else p
    return rest / rest.sum()


def token_by_token(draft, p, q, numbers):
    """(accepted tokens, what the next one is drawn from) of one draft: algorithm 1 of Leviathan et
    al. 2023."""
    for kept, token in enumerate(draft):
        if numbers[kept] * float(q[kept, token]) >= float(p[kept, token]):
            return kept, left_of(p[kept], q[kept])
    return len(draft), p[len(draft)]


def as_a_block(draft, p, q, numbers):
    """The same by algorithm 2 of Sun et al. 2024."""
    weights, kept = [1.0], 0
    for i, token in enumerate(draft):
        own, drawn = float(p[i, token]), float(q[i, token])
        weights.append(min(1.0, weights[-1] * own / max(drawn, 1e-40)) if own > 0 else 0.0)
        if i + 1 < len(draft):
            left = float((weights[-1] * p[i + 1] - q[i + 1]).clamp(min=0).sum())
            chance = left / max(left + 1 - weights[-1], 1e-30)
        else:
            chance = weights[-1]
        if numbers[i] < chance:
            kept = i + 1
    if kept == len(draft):
        return kept, p[kept]
    return kept, left_of(weights[kept] * p[kept], q[kept])


ALGORITHMS = [(SamplingRule, token_by_token), (BlockVerificationRule, as_a_block)]


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("rule, algorithm", ALGORITHMS)
def test_is_the_algorithm_of_the_paper(rule, algorithm, width):
    rows, words = 300, 6
    generator = torch.Generator().manual_seed(width)
    p, other = (2 * torch.randn(2, rows, width + 1, words, generator=generator)).softmax(-1)
    p[1:, :, 5] = 0.0  # forbidden
    p = p / p.sum(-1, keepdim=True)
    q = (0.7 * p + 0.3 * other)[:, :width]
    draft = torch.multinomial(q.flatten(0, 1), 1, generator=generator).view(rows, width)
    q[::9, 0] = q[::9, 0].scatter(1, draft[::9, :1], 0.0)  # rounded
    sizes = torch.randint(0, width + 1, (rows,), generator=generator)
    sampler = Told(torch.rand(rows, width, generator=generator))
    verdict = judge(rule(sampler), draft, sizes, p.log(), q.log())
    for row in range(rows):
        numbers = sampler.numbers[row].tolist()
        kept, rest = algorithm(draft[row, : sizes[row]].tolist(), p[row], q[row], numbers)
        assert int(verdict.counts[row]) == kept
        assert torch.allclose(sampler.drawn_from[row], rest, atol=1e-4)
    assert set(verdict.counts.tolist()) == set(range(width + 1))


@pytest.mark.parametrize("rule", [rule for rule, _ in ALGORITHMS])
def test_where_nothing_is_left_the_next_token_is_the_verifiers(rule):
    p = torch.tensor([[[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]]])
    sampler = Told(torch.tensor([[1.0]]))  # no token is kept
    judge(rule(sampler), torch.tensor([[0]]), torch.tensor([1]), p.log(), p[:, :1].log())
    assert torch.allclose(sampler.drawn_from, p[:, 0])


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


TASK = make_task(3)
WORDS = TASK.target_dictionary
SHAPE = both(layers=1, embed_dim=16, ffn_embed_dim=16, attention_heads=2)


def tiny_model(seed):
    """An untrained Transformer whose distributions are far from uniform."""
    torch.manual_seed(seed)
    model, _ = make_verifier(TASK, **SHAPE)
    model.decoder.output_projection.weight.data.mul_(2.0)
    return model.eval()


def tiny_block_drafter():
    torch.manual_seed(4)
    return make_drafter(TASK, block_size=2, **SHAPE).eval()


VERIFIER = tiny_model(1)
DRAFTERS = {"greedy": None, "sps": tiny_model(2), "gad": tiny_block_drafter()}
SOURCES = [[0, 1], [2]]


def generator_for(strategy, args, budget=0, models=(VERIFIER,), **settings):
    strategy, _, rule = strategy.partition(" by ")  # as in "gad by block"
    given = Namespace(sampling=True, max_len_a=0, max_len_b=MAX_LEN, unkpen=1e4, **args)
    if strategy != "greedy":
        # The default budget leaves thousands of rows nothing to draft.
        settings.update(
            drafter_path=__file__, block_size=2, draft_budget=budget,
            sampling_verification=rule or "token",
        )  # fmt: skip
    return build_generator(
        list(models), WORDS, WORDS, given, decoding_settings(strategy=strategy, **settings),
        load=lambda *_: copy.deepcopy(DRAFTERS[strategy]),
    )  # fmt: skip


def batch_of(rows):
    """Both sources in turns."""
    return make_sample(SOURCES * (rows // 2))


def enumerate_outputs(source, args, models):
    """{output: (its probability, log-probabilities as stock reports them)}, by the equations."""
    symbols = [s for s in range(len(WORDS)) if s not in (PAD, EOS, UNK)]
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


def check_distribution(generator, args, rows=2 * SAMPLES, samples=SAMPLES):
    """So many samples of each source are distributed by the equations."""
    torch.manual_seed(0)
    counts, scores = [{}, {}], [{}, {}]
    for _ in range(2 * samples // rows):
        for row, (hypo,) in enumerate(generator.generate(generator.models, batch_of(rows))):
            output = tuple(hypo["tokens"].tolist())
            counts[row % 2][output] = counts[row % 2].get(output, 0) + 1
            scores[row % 2][output] = hypo["positional_scores"]
    for i, source in enumerate(map(ids, SOURCES)):
        table = enumerate_outputs(source, args, generator.models)
        assert abs(sum(p for p, _ in table.values()) - 1) < 1e-4
        assert set(counts[i]) <= set(table), "an output that the verifier never gives"
        for output, own in scores[i].items():
            torch.testing.assert_close(own, torch.tensor(table[output][1]), atol=1e-3, rtol=0)
        expected = [samples * p for p, _ in table.values()]
        assert excess([counts[i].get(o, 0) for o in table], expected) < 4


FLAGS = [{}, {"sampling_topk": 3, "temperature": 1.7}, {"sampling_topp": 0.8, "temperature": 0.6}]
DRAFTED = ["sps", "gad", "sps by block", "gad by block"]


@pytest.mark.parametrize("strategy, args", half(["greedy", *DRAFTED], FLAGS))
def test_outputs_are_distributed_as_the_verifiers(strategy, args):
    generator = generator_for(strategy, args)
    check_distribution(generator, args)
    assert strategy == "greedy" or 0.1 < generator.stats.acceptance_rate < 0.95


@pytest.mark.parametrize("strategy", ["sps", "gad by block"])
def test_outputs_of_small_batches_under_a_budget_are_distributed_so_too(strategy):
    """Of an ensemble. Drafts of every length: the budget cuts them as rows come and go."""
    args = {"sampling_topp": 0.8, "temperature": 1.5}
    generator = generator_for(strategy, args, budget=48, models=[VERIFIER, tiny_model(3)])
    check_distribution(generator, args, rows=40, samples=1000)
    assert generator.stats.drafted > 0


DRAWS = [{}, {"sampling_topk": 7, "temperature": 2.0}, {"sampling_topp": 0.9, "temperature": 1.7}]


@pytest.mark.parametrize("args", DRAWS, ids=str)
@pytest.mark.parametrize("backend", ["torch", "native"])
def test_without_drafts_the_draws_are_stocks(backend, args):
    """The same seed and batch give the same samples with fairseq's own task, of 60 sentences."""
    flags = Namespace(sampling=True, max_len_b=MAX_LEN, unkpen=1e4, beam=1, **args)
    runs = []
    for generator in (
        TASK.build_generator([VERIFIER], flags),
        generator_for("greedy", args, backend=backend),
    ):
        torch.manual_seed(7)
        outputs = [
            row[0]["tokens"].tolist() for row in generator.generate([VERIFIER], batch_of(60))
        ]
        runs.append((outputs, float(torch.rand(1))))  # as much was drawn
    assert len(set(map(str, runs[0][0]))) > 5
    assert runs[0] == runs[1]
