"""Iterations in one call of the native library: as on torch, and the same bits for all drafts."""

import copy
import dataclasses

import pytest
import torch
from drafted import SENTENCES, block_drafter, decode
from scripted_drafter import ScriptedDrafter
from toy_strategies import decode as toy_decode
from toy_strategies import flags, make_generator, stock, tokens, toys
from toy_translation import EOS, PAD, WORDS, make_sample, make_task, toy_model

from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.builder import Overrides, build_generator
from fairseq_specdec.decoding.native_chains import NativeChains
from fairseq_specdec.decoding.pace import FewRejections, Planner
from fairseq_specdec.decoding.stats import DecodingStats
from fairseq_specdec.drafting.copying import InputCopyDrafter, InputCopySession
from fairseq_specdec.drafting.native_block import NativeBlockSession
from fairseq_specdec.engine.native import library

FORMATS = ["fp32", "bf16", "int8", "int7"]
SAMPLE = make_sample(SENTENCES)
COUNTS = ("iterations", "emitted", "drafted", "accepted", "rollbacks")


@pytest.fixture(autouse=True)
def with_library():
    if library.load() is None:
        pytest.skip(library.why_not())


def generator_for(
    model, number_format="fp32", args=None, drafter=None, backend="native", **overrides
):
    """Whole drafts and a trace, unless ``overrides`` say otherwise."""
    words = make_task().tgt_dict
    settings = decoding_settings(backend=backend, verifier_dtype=number_format)
    given = Overrides(drafter, **{"always_draft": True, "keep_trace": True, **overrides})
    return build_generator([model], words, words, args or flags(), settings, overrides=given)


def outputs_of(generator, sources, left=True):
    """(tokens, scores) of every sentence, to the bit."""
    ranked = generator.generate(generator.models, make_sample(sources, left))
    return [(h["tokens"].tolist(), h["positional_scores"].tolist()) for (h,) in ranked]


def one_by_one(generator, sources):
    return [outputs_of(generator, [source])[0] for source in sources]


def counted_by(monkeypatch, drafts):
    """A list that takes how many iterations each call does that drafts, or that does not."""
    method, calls = NativeChains._call, []

    def counted(self, draft, drafting, most):
        answer = method(self, draft, drafting, most)
        if (drafting is not None) == drafts:
            calls.append(self.call.done)
        return answer

    monkeypatch.setattr(NativeChains, "_call", counted)
    return calls


# ---- bits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number_format", FORMATS)
@pytest.mark.parametrize("shape", ["pre_norm", "layernorm_embedding", "narrow_output"])
def test_every_draft_leads_to_the_bits_of_greedy(shape, number_format):
    """Of other shapes than those of test_parity.py, and however long the drafts."""
    model = toy_model(shape)
    wanted = one_by_one(generator_for(model, number_format), SENTENCES)
    outputs = [tokens for tokens, _ in wanted]
    assert len(set(map(tuple, outputs))) > len(outputs) / 2
    assert outputs_of(generator_for(model, number_format), SENTENCES, left=False) == wanted
    drafters = [ScriptedDrafter(outputs, "noisy", WORDS, size) for size in (1, 8)]
    drafters += [block_drafter(model, kind) for kind in ("gad-bf16", "gad-int8")]
    if shape != "narrow_output":
        drafters.append(block_drafter(model, "gad-attached-unsure"))
    for drafter in drafters:
        assert outputs_of(generator_for(model, number_format, drafter=drafter), SENTENCES) == wanted


def test_sources_may_lie_in_any_order():
    """Column by column, as a transposed tensor does: the padding is still where it is."""
    sources = SAMPLE["net_input"]["src_tokens"]
    assert (sources == PAD).any()
    there = {**SAMPLE["net_input"], "src_tokens": sources.t().contiguous().t()}
    outputs = generator_for(toy_model()).generate([toy_model()], {**SAMPLE, "net_input": there})
    assert tokens(h for (h,) in outputs) == tokens(stock([toy_model()], SAMPLE, flags()))


# ---- in the library's call -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"min_len": 6}, {"max_len_a": 0.5, "max_len_b": 2}, {"unkpen": 2.5}, {"unkpen": -8.0},
        {"temperature": 0.3},
    ],
    ids=str,
)  # fmt: skip
def test_constraints_apply_inside_the_call(changes, monkeypatch):
    """The general code is not asked: each of these is part of the library's call."""
    model, args = toy_model("pre_norm"), flags(**changes)
    wanted = tokens(stock([model], SAMPLE, args))
    calls = counted_by(monkeypatch, False)
    for kind in ("noisy", "empty"):
        drafter = ScriptedDrafter(wanted, kind, WORDS)
        outputs = outputs_of(generator_for(model, args=args, drafter=drafter), SENTENCES)
        assert [output for output, _ in outputs] == wanted
    assert calls and min(calls) == 1


@pytest.mark.parametrize("drafts", [False, True], ids=["greedy", "a drafter that pauses"])
def test_iterations_without_a_trace_are_counted_as_those_with_one(drafts, monkeypatch):
    """Without one, those that a call does alike are booked together."""
    model, counted = toy_model("pre_norm"), []
    calls = counted_by(monkeypatch, False)
    for trace in (False, True):
        drafter = block_drafter(model, "gad") if drafts else None
        more = {"keep_trace": trace, "planning": FewRejections(1), "always_draft": False}
        generator = generator_for(model, drafter=drafter, **more)
        steps = [h["steps"] for h in toy_decode(generator, SAMPLE)]
        figures = generator.stats.as_dict()
        kept = {k: v for k, v in figures.items() if "seconds" not in k and "cost" not in k}
        counted.append((steps, generator.stats.judged, kept))
    assert counted[0] == counted[1] and max(calls) > 1
    assert len(set(counted[0][0])) > 2 and counted[0][2]["undrafted_iterations"] > 6


FORCED = torch.tensor([[5, 6, 7], [8, PAD, PAD], [PAD] * 3, [4, PAD, 9]])


@pytest.mark.parametrize("kind", ["greedy", "gad-attached-unsure"])
def test_a_prefix_takes_one_pass_and_leaves_the_rest_to_the_library(kind, monkeypatch):
    model, calls = toy_model("pre_norm"), counted_by(monkeypatch, False)
    drafter = None if kind == "greedy" else block_drafter(model, kind)
    args, sample = flags(min_len=9), make_sample(SENTENCES[:4])
    generator = generator_for(model, args=args, drafter=drafter)
    with generator.batch([model], sample, FORCED) as batch:
        batch.iterate(100)
        assert calls == [1] and batch.rows.lengths_cpu == [4, 2, 1, 2]
        assert batch.stats.emitted == 9 and batch.stats.iterations == batch.stats.undrafted == 4
        assert batch.stats.scored == 4 + 5 and batch.stats.drafted == 0
        while batch.live:
            batch.iterate(100)
    assert tokens(h for (h,) in batch.finished) == tokens(stock([model], sample, args, FORCED))
    assert drafter or calls[1] > 1
    assert all(calls), "a step was left to the general code"


# ---- drafts in the call --------------------------------------------------------------------------


def untimed(trace):
    return [dataclasses.replace(one, ms=0, drafter_ms=0, verifier_ms=0) for one in trace]


def everything(hypotheses):
    """Of each sentence its tokens, scores and trace, but for the times."""
    return [
        (h["tokens"].tolist(), h["positional_scores"].tolist(), untimed(h["iterations"]))
        for h in hypotheses
    ]


def decoded_three_ways(generator, sources, monkeypatch):
    """Several drafts in a call, one draft in a call, and calls for each part; with the counts."""

    def iteration_by_iteration(generator, sample):
        with generator.batch(generator.models, sample) as batch:
            while batch.live:
                batch.iterate()
        return [h for (h,) in batch.finished]

    answers = []
    for decode_batch, joined in (
        (toy_decode, True), (iteration_by_iteration, True), (toy_decode, False)
    ):  # fmt: skip
        generator.stats = DecodingStats()
        generator.refresh()  # nothing was learnt yet
        with monkeypatch.context() as patched:
            if not joined:
                for session in (NativeBlockSession, InputCopySession):
                    patched.setattr(session, "native_form", lambda *_: None)
            outputs = everything(decode_batch(generator, make_sample(sources)))
        answers.append((outputs, [getattr(generator.stats, name) for name in COUNTS]))
    return answers


# Sources that repeat themselves.
FEW = [[4 + i * i % 3 for i in range(size)] + [EOS] for size in range(2, 14)]
COPYING = [
    {}, {"max_suffix": None}, {"block_size": 3, "max_suffix": 1}
]  # fmt: skip


@pytest.mark.parametrize("drafts", ["gad", "gad-attached-unsure", *COPYING], ids=str)
@pytest.mark.parametrize("column, limit", [(0.01, 200), (0.25, 200), (0.01, 4)])
def test_copied_and_other_drafts_in_a_loop_are_those_made_one_by_one(
    drafts, column, limit, monkeypatch
):
    """The same drafts, verdicts, hidden states and pauses, for one sentence, which may pause
    drafting, and for several. What several drafts in a call share is their plan, so that these may
    be others than those made one by one."""
    model, args = toy_model("pre_norm"), flags(max_len_b=limit)
    if isinstance(drafts, str):
        drafter, share, sources = block_drafter(model, drafts), 0.1, SENTENCES
    else:
        drafter, share, sources = InputCopyDrafter(PAD, EOS, **drafts), 0.0, SENTENCES[:10] + FEW
    planning = Planner(4, column=column, share=share, measured=False)
    for always, batches in ((False, [[one] for one in sources[::3]]), (True, [sources])):
        more = {"always_draft": always, "planning": None if always else planning}
        generator = generator_for(model, args=args, drafter=drafter, **more)
        drafted = 0
        for batch in batches:
            at_once, stepwise, apart = decoded_three_ways(generator, batch, monkeypatch)
            assert stepwise == apart
            if always:
                assert at_once == stepwise
            assert [one[:2] for one in at_once[0]] == [one[:2] for one in stepwise[0]]
            drafted += at_once[1][COUNTS.index("drafted")]
        assert drafted > 0


@pytest.mark.parametrize("kind", ["gad", "gad-attached-unsure"])
def test_what_is_not_drafted_for_a_while_is_one_call(kind, monkeypatch):
    """Then the drafter reads the hidden states of all of it: its drafts are those made after single
    calls."""
    model = toy_model("pre_norm")
    more = {"planning": FewRejections(1), "always_draft": False}
    generator = generator_for(model, drafter=block_drafter(model, kind), **more)
    at_once, stepwise, apart = decoded_three_ways(generator, SENTENCES, monkeypatch)
    assert at_once == stepwise == apart
    assert at_once[1][COUNTS.index("drafted")] > 0  # once a sentence is left alone
    calls = counted_by(monkeypatch, False)
    outputs_of(generator, SENTENCES)
    assert max(calls) > 1 and len(calls) <= len(SENTENCES) + generator.stats.undrafted // 2


@pytest.mark.parametrize("kind", ["greedy", "copied", "gad-attached-unsure"])
def test_a_sentence_is_decoded_in_one_call(kind, monkeypatch):
    calls = counted_by(monkeypatch, kind != "greedy")
    model, drafter = toy_model("pre_norm"), None
    if kind == "copied":
        drafter = InputCopyDrafter(PAD, EOS)
    elif kind != "greedy":
        drafter = block_drafter(model, kind)
    generator = generator_for(model, drafter=drafter)
    sources = SENTENCES if kind == "copied" else SENTENCES[:1]
    one_by_one(generator, sources)
    assert len(calls) == len(sources) and max(calls) > 1
    times = generator.stats.stopwatch.seconds
    assert times["verifier"] > 0 and (kind == "greedy" or times["drafter"] > 0)


@pytest.mark.parametrize("kind", ["noisy", "gad-attached"])
def test_a_trace_is_the_same_on_both_backends(kind):
    """A drafter that reads hidden states drafts the same only if they are given to its rows."""
    model, traces = toy_model("pre_norm"), []
    scripted = ScriptedDrafter(tokens(stock([model], SAMPLE, flags())), "noisy", WORDS)
    for backend in ("native", "torch"):
        drafter = scripted if kind == "noisy" else block_drafter(model, kind)
        hypotheses = toy_decode(generator_for(model, drafter=drafter, backend=backend), SAMPLE)
        traces.append([untimed(h["iterations"]) for h in hypotheses])
        assert all(one.ms > 0 for h in hypotheses for one in h["iterations"])
    assert traces[0] == traces[1]


@pytest.mark.parametrize("drafter_format", ["bf16", "int8"])
@pytest.mark.parametrize("number_format", ["fp32", "int8"])
def test_drafts_in_a_format_of_their_own(number_format, drafter_format):
    for case in ("gad", "gad-attached", "sps"):
        wanted = one_by_one(generator_for(toys(case).verifier(), number_format), SENTENCES)
        formats = {"verifier_dtype": number_format, "drafter_dtype": drafter_format}
        drafted = make_generator(case, backend="native", **formats)
        assert outputs_of(drafted, SENTENCES) == wanted and drafted.stats.accepted > 0
    with pytest.raises(ValueError, match="--drafter-dtype int8: needs the native backend"):
        toy_decode(make_generator("gad", backend="torch", drafter_dtype="int8"), SAMPLE)


# ---- what the library leaves to the general code, or refuses -------------------------------------


def test_a_tie_is_left_to_the_general_code(monkeypatch):
    model = copy.deepcopy(toy_model())
    projection, half = model.decoder.output_projection, WORDS // 2
    projection.weight = torch.nn.Parameter(projection.weight.clone())  # no embedding any more
    with torch.no_grad():
        weight = projection.weight
        weight[4 : 4 + half] = weight[4 + half : 4 + 2 * half]
    wanted = tokens(stock([model], SAMPLE, flags()))
    given_up, run = [], NativeChains.run

    def counted(self, most):
        rounds, draft = run(self, most)
        given_up.append(not rounds)
        return rounds, draft

    monkeypatch.setattr(NativeChains, "run", counted)
    for kind in ("noisy", "empty", "gad", "gad-attached"):
        ours, _ = decode([model], SAMPLE, kind, flags(), wanted, backend="native")
        assert tokens(ours) == wanted
    assert sum(given_up) > 1


def test_a_token_out_of_the_vocabulary_is_refused():
    drafter = ScriptedDrafter([[1005, 1006, 1007, EOS]] * len(SENTENCES), "perfect", WORDS)
    with pytest.raises(ValueError, match="a token that is not in the vocabulary"):
        toy_decode(generator_for(toy_model(), drafter=drafter), SAMPLE)


def test_the_padding_symbol_is_never_output():
    model, args = copy.deepcopy(toy_model("separate_embeddings")), flags(max_len_b=20)
    with torch.no_grad():
        weight = model.decoder.output_projection.weight
        weight[PAD] = 2 * weight[EOS]  # likelier than </s> where that is likely
    outputs = toy_decode(generator_for(model, args=args), SAMPLE)
    assert tokens(outputs) == tokens(stock([model], SAMPLE, args))
