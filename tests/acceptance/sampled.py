"""Sampled outputs of a tiny model, and whether they are distributed as the equations have it."""

import copy
import itertools
import math
from argparse import Namespace

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.transformer import TransformerModel, base_architecture
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from pairwise import half

from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.builder import Overrides, build_generator
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
    strategy, _, rule = strategy.partition(" by ")  # as in "gad by block"
    path = tmp_path / "drafter.pt"
    path.write_bytes(b"a test loads none")
    if DRAFTERS[strategy] is not None:
        settings = dict(settings, drafter_path=str(path), block_size=2)
    given = Namespace(sampling=True, max_len_a=0, max_len_b=MAX_LEN, unkpen=1e4, **args)
    # The default budget leaves thousands of rows nothing to draft.
    if strategy != "greedy":
        settings = dict({"sampling_verification": rule or "token"}, draft_budget=budget, **settings)
    return build_generator(
        list(models), words(), words(), given, decoding_settings(strategy=strategy, **settings),
        load=lambda *_: copy.deepcopy(DRAFTERS[strategy]), overrides=overrides or Overrides(),
    )  # fmt: skip


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
    excesses = []
    for i, source in enumerate(SOURCES):
        table = enumerate_outputs(source, args, generator.models)
        assert abs(sum(p for p, _ in table.values()) - 1) < 1e-4
        assert set(counts[i]) <= set(table), "an output that the verifier never gives"
        assert sum(counts[i].values()) == samples
        for output, own in scores[i].items():
            torch.testing.assert_close(own, torch.tensor(table[output][1]), atol=1e-3, rtol=0)
        expected = [samples * p for p, _ in table.values()]
        excesses.append(excess([counts[i].get(o, 0) for o in table], expected))
    return max(excesses)


IN_GATE = [{}, {"sampling_topk": 3, "temperature": 1.7}, {"sampling_topp": 0.8, "temperature": 0.6}]
OTHERS = [
    {"temperature": 0.6}, {"temperature": 2.0}, {"sampling_topk": 2}, {"sampling_topk": 3},
    {"sampling_topp": 0.5}, {"sampling_topp": 0.8},
]  # fmt: skip


def drawn_with(strategies):
    """(strategy, flags of sampling) of a test: in the gate half of those of ``IN_GATE``."""
    night = itertools.product(strategies, OTHERS)
    return half(strategies, IN_GATE) + [
        pytest.param(*each, marks=pytest.mark.slow) for each in night
    ]
