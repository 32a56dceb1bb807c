"""The exactness contract: lossless strategies say what stock fairseq says at beam 1."""

import copy
import dataclasses
from argparse import Namespace
from unittest import mock

import pytest
import torch
from broken_engines import MUTANTS, accept_a_token_too_many
from fairseq.dataclass.configs import GenerationConfig
from scripted_drafter import KINDS, ScriptedDrafter
from toy_translation import (
    EOS,
    PAD,
    SHAPES,
    WORDS,
    assert_diverse,
    make_sample,
    make_task,
    sentences,
    toy_attached_drafter,
    toy_drafter,
    toy_model,
)

from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding import builder
from fairseq_specdec.decoding.builder import Overrides, build_generator
from fairseq_specdec.drafting import DraftOptions, NarBlockDrafter

SENTENCES = sentences(24, seed=7)


def flags(**changes):
    return Namespace(**dict(dataclasses.asdict(GenerationConfig()), beam=1, **changes))


def stock(models, sample, args, prefix=None):
    task = make_task()
    generator = task.build_generator(models, args)
    return [h[0] for h in task.inference_step(generator, models, sample, prefix_tokens=prefix)]


STRATEGIES = [
    "greedy",
    "iad",
    "gad",
    "gad-collapsed",
    "gad-bf16",
    "gad-attached",
    "gad-unsure",
    "gad-attached-unsure",
] + KINDS


def block_drafter(verifier, kind):
    like = next(verifier.parameters()).dtype
    dtype = {"gad-bf16": torch.bfloat16, "gad-int8": torch.int8}.get(kind, like)
    if kind.startswith("gad-attached"):
        known = [shape for shape in SHAPES if toy_model(shape) is verifier]
        model = toy_attached_drafter(known[0] if known else "post_norm", 4, 80, chain_width=16)
    else:
        model = toy_drafter()
    model.to(like if dtype == torch.int8 else dtype)
    confidence = 0.4 if kind.endswith("-unsure") else 0.0
    options = DraftOptions(4, PAD, EOS, dtype, kind == "gad-collapsed", confidence)
    return NarBlockDrafter(model, options)


def decode(models, sample, strategy, args, outputs=(), prefix=None, spare=None, backend="auto"):
    """Ours, in whole drafts unless a verification may have ``spare`` rejected tokens."""
    words = make_task().tgt_dict
    drafter = None
    if strategy in KINDS:
        drafter = ScriptedDrafter(outputs, strategy, WORDS)
    elif strategy.startswith("gad"):
        drafter = block_drafter(models[0], strategy)
    name = strategy if strategy in ("greedy", "iad") else "greedy"
    overrides = Overrides(drafter, always_draft=spare is None)
    with mock.patch.object(builder, "CPU_SPARE", spare):
        generator = build_generator(
            models,
            words,
            words,
            args,
            decoding_settings(strategy=name, backend=backend),
            overrides=overrides,
        )
    assert generator.options.spare_tokens == spare
    assert generator.options.pause_drafting == (spare is not None)
    found = generator.generate(models, sample, prefix_tokens=prefix)
    return [hypotheses and hypotheses[0] for hypotheses in found], generator


def check(ours, reference):
    for mine, theirs in zip(ours, reference):
        assert mine is not None
        assert mine["tokens"].tolist() == theirs["tokens"].tolist()
        torch.testing.assert_close(
            mine["positional_scores"].float(),
            theirs["positional_scores"].float(),
            atol=1e-4,
            rtol=0,
        )
        assert mine["score"].dim() == 0
        assert abs(float(mine["score"]) - float(theirs["score"])) < 1e-4


BACKENDS = ["torch", "auto"]


def compare(
    models, strategy, args, left=True, prefix=None, chosen=SENTENCES, spare=None, backends=BACKENDS
):
    sample = make_sample(chosen, left)
    reference = stock(models, sample, args, prefix)
    outputs = [h["tokens"].tolist() for h in reference]
    for backend in backends:
        ours, generator = decode(models, sample, strategy, args, outputs, prefix, spare, backend)
        check(ours, reference)
    return outputs, generator.stats


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_equals_stock_for_every_shape_of_verifier(shape, strategy):
    if shape in ("narrow_output", "separate_embeddings") and strategy.startswith("gad-attached"):
        pytest.skip("an attached drafter refuses such a verifier")
    outputs, stats = compare([toy_model(shape)], strategy, flags())
    assert_diverse(outputs)
    if strategy == "perfect":
        assert stats.mean_accepted_tokens > 3


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("shape", ["post_norm", "one_attention"])
@pytest.mark.parametrize("strategy", ["greedy", "iad", "gad", "gad-attached", "noisy"])
def test_equals_stock_on_either_padding_side(strategy, shape, left):
    compare([toy_model(shape)], strategy, flags(), left=left)


@pytest.mark.parametrize("strategy", ["greedy", "iad", "gad", "gad-attached", "noisy"])
def test_equals_stock_sentence_by_sentence(strategy):
    for sentence in SENTENCES[:8]:
        compare([toy_model()], strategy, flags(), chosen=[sentence])


@pytest.mark.parametrize(
    "changes",
    [
        {"min_len": 6},
        {"max_len_a": 0.5, "max_len_b": 2},
        {"max_len_b": 1},
        {"max_len_b": 3, "min_len": 3},
        {"unkpen": 2.5},
        {"unkpen": -8.0},
        {"temperature": 0.3},
        {"temperature": 3.0},
        {"no_repeat_ngram_size": 2},
        {"no_repeat_ngram_size": 3},
        {"lenpen": 0.4},
        {"unnormalized": True},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "strategy", ["greedy", "iad", "gad", "gad-attached", "perfect", "noisy", "eos"]
)
def test_equals_stock_with_flags(strategy, changes):
    compare([toy_model("pre_norm")], strategy, flags(**changes))


@pytest.mark.parametrize(
    "changes",
    [{"unkpen": -20.0}, {"lenpen": -1.0}, {"unkpen": -20.0, "lenpen": -1.0}, {"lenpen": -2.0}],
    ids=str,
)
@pytest.mark.parametrize("strategy", ["greedy", "gad", "noisy"])
def test_scores_agree_relative_to_the_total(strategy, changes):
    """Stock adds log-probabilities up in fp32, and takes differences of the sums."""
    for shape in ("pre_norm", "learned", "post_norm"):
        sample = make_sample(SENTENCES)
        reference = stock([toy_model(shape)], sample, flags(**changes))
        outputs = [h["tokens"].tolist() for h in reference]
        ours, _ = decode([toy_model(shape)], sample, strategy, flags(**changes), outputs)
        for mine, theirs in zip(ours, reference):
            assert mine["tokens"].tolist() == theirs["tokens"].tolist()
            score, own = float(theirs["score"]), mine["positional_scores"]
            assert abs(float(mine["score"]) - score) < 1e-5 * max(1.0, abs(score))
            total = max(1.0, float(own.cumsum(0).abs().max()))
            assert float((own - theirs["positional_scores"]).abs().max()) < 1e-6 * total + 1e-5


def test_a_huge_unknown_word_penalty_with_a_prefix_leaves_stock_nothing_to_choose_by():
    model, sample = toy_model("pre_norm"), make_sample(SENTENCES)
    prefix = torch.full((len(SENTENCES), 1), 3)  # <unk>
    differing, texts = {}, set()
    for penalty in (1e3, 1e6, 1e9):
        args = flags(unkpen=penalty, max_len_b=12)
        theirs = [h["tokens"].tolist() for h in stock([model], sample, args, prefix)]
        hypotheses, _ = decode([model], sample, "greedy", args, prefix=prefix)
        ours = [h["tokens"].tolist() for h in hypotheses]
        texts.add(str(ours))
        differing[penalty] = sum(mine != other for mine, other in zip(ours, theirs))
    assert len(texts) == 1
    assert differing[1e3] == 0 and differing[1e6] < 8  # how many depends on the toy
    assert differing[1e9] == len(SENTENCES)
    assert {len(set(tokens[1:-1])) for tokens in theirs} == {1}, "one token up to the limit"


@pytest.mark.parametrize("changes", [{}, {"min_len": 4}, {"max_len_b": 3}], ids=str)
@pytest.mark.parametrize("strategy", ["greedy", "iad", "gad", "gad-attached", "noisy"])
def test_equals_stock_with_forced_prefixes(strategy, changes):
    generator = torch.Generator().manual_seed(9)
    prefix = torch.randint(4, 4 + WORDS, (len(SENTENCES), 4), generator=generator)
    for row in range(len(SENTENCES)):
        size = row % 5
        prefix[row, size:] = PAD
        if row % 7 == 3 and size > 1:
            prefix[row, size - 1] = EOS
    compare([toy_model()], strategy, flags(**changes), prefix=prefix)


@pytest.mark.parametrize("strategy", ["greedy", "iad", "gad", "gad-attached", "noisy"])
def test_equals_stock_ensembles(strategy):
    models = [toy_model("post_norm"), toy_model("pre_norm"), toy_model("learned", seed=2)]
    outputs, _ = compare(models, strategy, flags())
    assert_diverse(outputs)


@pytest.mark.parametrize("strategy", ["greedy", "iad", "gad", "gad-attached", "noisy"])
def test_equals_stock_in_double_precision(strategy):
    model = toy_model("pre_norm", seed=3).double()
    compare([model], strategy, flags())


@pytest.mark.parametrize("strategy", ["greedy", "gad", "gad-attached", "noisy"])
def test_equals_stock_up_to_the_last_learned_position(strategy):
    model = toy_model("learned", seed=4)
    compare([model], strategy, flags(max_len_b=200, min_len=50), chosen=SENTENCES[:4])


@pytest.mark.parametrize("strategy", ["greedy", "perfect", "noisy"])
def test_ties_go_where_stock_sends_them(strategy):
    model = toy_model("separate_embeddings", seed=6)
    with torch.no_grad():
        weight = model.decoder.output_projection.weight
        weight[FIRST_HALF] = weight[SECOND_HALF]
        logits = torch.nn.functional.linear(torch.randn(8, weight.size(1)), weight)
    if not torch.equal(logits[:, FIRST_HALF], logits[:, SECOND_HALF]):
        pytest.skip("torch 1.13 may round the product with equal rows differently: no ties here")
    compare([model], strategy, flags())


FIRST_HALF = torch.arange(4, 4 + WORDS // 2)
SECOND_HALF = torch.arange(4 + WORDS // 2, 4 + WORDS)


def test_generators_follow_weights_after_refresh():
    model = toy_model("post_norm", seed=8)
    sample = make_sample(SENTENCES)
    words = make_task().tgt_dict
    generator = build_generator(
        [model], words, words, flags(), decoding_settings(strategy="greedy")
    )
    generator.generate([model], sample)
    with torch.no_grad():
        for parameter in model.decoder.layers.parameters():
            parameter.data.mul_(1.3)
    generator.refresh()
    check([h[0] for h in generator.generate([model], sample)], stock([model], sample, flags()))


@pytest.mark.parametrize("strategy", ["greedy", "gad", "noisy"])
def test_models_left_in_training_decode_as_stock_does(strategy):
    """Stock's generator puts them into evaluation."""
    model = copy.deepcopy(toy_model("quant_noise"))
    for module in model.modules():
        if hasattr(module, "apply_during_inference"):
            module.p = 0.5
    reference = stock([copy.deepcopy(model).train()], make_sample(SENTENCES), flags())
    outputs = [h["tokens"].tolist() for h in reference]
    ours, _ = decode([model.train()], make_sample(SENTENCES), strategy, flags(), outputs)
    check(ours, reference)


def test_outputs_share_no_storage():
    ours, _ = decode([toy_model()], make_sample(SENTENCES), "greedy", flags())
    before = [h["positional_scores"].clone() for h in ours]
    ours[0]["positional_scores"].div_(2)
    for later, kept in zip(ours[1:], before[1:]):
        assert torch.equal(later["positional_scores"], kept)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
@pytest.mark.parametrize("strategy", ["perfect", "noisy"])
def test_a_broken_verifier_is_noticed_whatever_is_drafted(strategy, mutant, monkeypatch):
    if (strategy, mutant) == ("perfect", accept_a_token_too_many):
        pytest.skip("there is no wrong token to accept")
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        compare([toy_model("pre_norm")], strategy, flags(), backends=["torch"])


@pytest.mark.parametrize("strategy", ["greedy", "gad", "noisy"])
def test_output_that_is_no_number_stops_decoding(strategy):
    """Stock goes on with tokens of no meaning."""
    model = copy.deepcopy(toy_model("separate_embeddings"))
    model.decoder.output_projection.weight.data[7] = float("inf")
    with pytest.raises(ValueError, match="--path.*no number.*sentence"):
        decode([model], make_sample(SENTENCES), strategy, flags(), [[5, 6, 7]] * len(SENTENCES))
