"""Iterations in one call of the native library: as on torch, and the same bits for all drafts."""

import copy
import dataclasses

import pytest
import torch
from drafted import SENTENCES, activated, block_drafter, decode
from pairwise import half
from scripted_drafter import ScriptedDrafter
from toy_strategies import decode as toy_decode
from toy_strategies import flags, make_generator, stock, toys
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


def iterations_of_calls(monkeypatch):
    """A list that takes how many iterations each call does."""
    return counted_by(monkeypatch, "_verify")


def counted_by(monkeypatch, name):
    method, calls = getattr(NativeChains, name), []

    def counted(self, *arguments):
        rounds = method(self, *arguments)
        calls.append(sum(one.times for one in rounds))
        return rounds

    monkeypatch.setattr(NativeChains, name, counted)
    return calls


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


@pytest.mark.parametrize(
    "case, activation, number_format",
    half(["iad", "lookup", "gad", "gad-attached", "sps", "blockwise"],
         ["relu", "gelu", "gelu_accurate", "tanh", "swish"], FORMATS),
)  # fmt: skip
def test_every_strategy_gives_the_bits_of_greedy(case, activation, number_format):
    """With its own drafts, at every activation and format; test_beam.py has the beams."""
    model, sources = activated(toys(case).verifier(), activation), SENTENCES[:8]
    wanted = one_by_one(generator_for(model, number_format), sources)
    drafted = make_generator(case, models=[model], backend="native", verifier_dtype=number_format)
    assert outputs_of(drafted, sources) == wanted and drafted.stats.drafted > 0


@pytest.mark.parametrize("asked", ["fp32", "bf16"])
@pytest.mark.parametrize("case", ["gad", "gad-attached", "sps"])
def test_drafts_in_a_format_of_their_own_lead_to_the_bits_of_greedy(case, asked):
    model = toys(case).verifier()
    wanted = one_by_one(generator_for(model, "int8"), SENTENCES)
    formats = {"verifier_dtype": "int8", "drafter_dtype": asked}
    drafted = make_generator(case, models=[model], backend="native", **formats)
    assert outputs_of(drafted, SENTENCES) == wanted and drafted.stats.accepted > 0


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
    wanted = [h["tokens"].tolist() for h in stock([model], make_sample(SENTENCES), args)]
    for kind in ("noisy", "perfect", "empty"):
        drafter = ScriptedDrafter(wanted, kind, WORDS)
        generator = generator_for(model, args=args, drafter=drafter)
        with monkeypatch.context() as patched:
            calls = iterations_of_calls(patched)
            assert [tokens for tokens, _ in outputs_of(generator, SENTENCES)] == wanted
        assert calls and min(calls) == 1


def test_greedy_decodes_until_a_row_ends_in_one_call(monkeypatch):
    generator, calls = generator_for(toy_model("pre_norm")), iterations_of_calls(monkeypatch)
    outputs_of(generator, SENTENCES[:1])
    assert len(calls) == 1 and calls[0] > 1
    assert generator.stats.iterations == calls[0] == generator.stats.emitted


@pytest.mark.parametrize("drafts", [False, True], ids=["greedy", "a drafter that pauses"])
def test_iterations_without_a_trace_are_counted_as_those_with_one(drafts):
    """Without one, those that a call does alike are booked together."""
    model, counted = toy_model("pre_norm"), []
    for trace in (False, True):
        drafter = block_drafter(model, "gad") if drafts else None
        more = {"keep_trace": trace, "planning": FewRejections(1), "always_draft": False}
        generator = generator_for(model, drafter=drafter, **more)
        hypotheses = generator.generate(generator.models, make_sample(SENTENCES[:6]))
        steps = [h["steps"] for (h,) in hypotheses]
        figures = generator.stats.as_dict()
        kept = {k: v for k, v in figures.items() if "seconds" not in k and "cost" not in k}
        counted.append((steps, generator.stats.judged, kept))
    assert counted[0] == counted[1]
    assert len(set(counted[0][0])) > 2 and counted[0][2]["undrafted_iterations"] > 6


FORCED = torch.tensor([[5, 6, 7], [8, PAD, PAD], [PAD] * 3, [4, PAD, 9]])


@pytest.mark.parametrize("kind", ["greedy", "gad-attached-unsure"])
def test_a_prefix_takes_one_pass_and_leaves_the_rest_to_the_library(kind, monkeypatch):
    model, calls = toy_model("pre_norm"), iterations_of_calls(monkeypatch)
    drafter = None if kind == "greedy" else block_drafter(model, kind)
    args, sample = flags(min_len=9), make_sample(SENTENCES[:4])
    generator = generator_for(model, args=args, drafter=drafter)
    with generator.batch([model], sample, FORCED) as batch:
        batch.iterate(100)
        assert calls == [1] and batch.rows.lengths_cpu == [4, 2, 1, 2]
        assert batch.stats.emitted == 9 and batch.stats.iterations == batch.stats.undrafted == 4
        assert batch.stats.scored == 4 + 5 and batch.stats.drafted == 0
        batch.iterate(100)
        assert max(batch.rows.lengths_cpu) > 6
        while batch.live:
            batch.iterate(100)
    wanted = stock([model], sample, args, FORCED)
    assert [h["tokens"].tolist() for (h,) in batch.finished] == [
        h["tokens"].tolist() for h in wanted
    ]
    assert drafter or calls[1] > 1
    assert all(calls), "a step was left to the general code"


def test_a_row_may_end_early_beside_a_longer_prefix():
    """As in stock, which asks for no least length while a prefix of the batch may reach."""
    model, sample = toy_model("pre_norm"), make_sample(SENTENCES[:4])
    prefix = torch.full((4, 14), PAD)
    prefix[0] = 5
    args = flags(min_len=14)
    wanted = [h["tokens"].tolist() for h in stock([model], sample, args, prefix)]
    assert min(map(len, wanted)) < 14 < len(wanted[0])
    for backend in ("torch", "native"):
        generator = make_generator("greedy", args, [model], backend=backend)
        assert [h["tokens"].tolist() for h in toy_decode(generator, sample, prefix)] == wanted


COUNTS = ("iterations", "emitted", "drafted", "accepted", "rollbacks")


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

    def at_once(sample):
        return [h for (h,) in generator.generate(generator.models, sample)]

    def iteration_by_iteration(sample):
        with generator.batch(generator.models, sample) as batch:
            while batch.live:
                batch.iterate()
        return [h for (h,) in batch.finished]

    answers = []
    for decode_batch, joined in ((at_once, 1), (iteration_by_iteration, 1), (at_once, 0)):
        generator.stats = DecodingStats()
        generator.refresh()  # nothing was learnt yet
        with monkeypatch.context() as patched:
            if not joined:
                for session in (NativeBlockSession, InputCopySession):
                    patched.setattr(session, "native_form", lambda *_: None)
            outputs = everything(decode_batch(make_sample(sources)))
        answers.append((outputs, [getattr(generator.stats, name) for name in COUNTS]))
    return answers


def decoded(answer):
    """(tokens, scores) of each sentence."""
    return [one[:2] for one in answer[0]]


def check_three_ways(monkeypatch, drafter, sources, planning, limit):
    """They are alike, for one sentence, which may pause drafting, and for several. What several
    drafts in a call share is their plan, so that these may be others than those made one by one."""
    model, args = toy_model("pre_norm"), flags(max_len_b=limit)
    for always, batches in ((False, [[one] for one in sources[::3]]), (True, [sources])):
        more = {"always_draft": always, "planning": None if always else planning}
        generator = generator_for(model, args=args, drafter=drafter, **more)
        assert (generator.options.draft_budget == 0) is always
        drafted = 0
        for batch in batches:
            at_once, stepwise, apart = decoded_three_ways(generator, batch, monkeypatch)
            assert stepwise == apart
            assert at_once == stepwise if always else decoded(at_once) == decoded(stepwise)
            drafted += at_once[1][COUNTS.index("drafted")]
        assert drafted > 0


def test_an_int8_drafter_needs_the_native_backend():
    model = toy_model("pre_norm")
    generator = generator_for(model, drafter=block_drafter(model, "gad-int8"), backend="torch")
    with pytest.raises(ValueError, match="--drafter-dtype int8: needs the native backend"):
        generator.generate([model], make_sample(SENTENCES))


def test_an_int8_drafter_is_packed_in_int8_beside_a_verifier_that_is_not():
    model = toy_model("pre_norm")
    generator = generator_for(model, drafter=block_drafter(model, "gad-int8"))
    outputs_of(generator, SENTENCES)
    parts = generator._parts
    assert parts.drafter.layers.stack.number_format == "int8"
    assert parts.verifier.weights[0].decoder.stack.number_format == "fp32"
    assert generator.stats.accepted > 0


@pytest.mark.parametrize("kind", ["gad", "gad-attached", "gad-attached-unsure"])
@pytest.mark.parametrize("column", [0.01, 0.25], ids=["drafting pays", "drafting pauses"])
@pytest.mark.parametrize("limit", [200, 4])
def test_drafts_in_a_loop_are_those_made_one_by_one(kind, column, limit, monkeypatch):
    """The same drafts, verdicts, hidden states and pauses."""
    drafter, planning = (
        block_drafter(toy_model("pre_norm"), kind),
        Planner(4, column=column, share=0.1, measured=False),
    )
    check_three_ways(monkeypatch, drafter, SENTENCES, planning, limit)


@pytest.mark.parametrize("options", [
    {}, {"max_suffix": None}, {"block_size": 3, "max_suffix": 1},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("column, limit", [(0.01, 200), (0.25, 200), (0.01, 4)])
def test_copies_in_a_loop_are_those_made_one_by_one(options, column, limit, monkeypatch):
    """Of sources that repeat themselves, too."""
    few = [[4 + i * i % 3 for i in range(size)] + [EOS] for size in range(2, 14)]
    drafter, planning = (
        InputCopyDrafter(PAD, EOS, **options),
        Planner(column=column, measured=False),
    )
    check_three_ways(monkeypatch, drafter, SENTENCES[:10] + few, planning, limit)


def test_a_sentence_is_copied_and_verified_in_one_call(monkeypatch):
    calls = iterations_of_loops(monkeypatch)
    drafter = InputCopyDrafter(PAD, EOS)
    generator = generator_for(toy_model("pre_norm"), drafter=drafter)
    one_by_one(generator, SENTENCES)
    assert len(calls) == len(SENTENCES) and max(calls) > 2


@pytest.mark.parametrize("kind", ["gad", "gad-attached", "gad-attached-unsure"])
def test_what_is_not_drafted_for_a_while_is_one_call(kind, monkeypatch):
    """Then the drafter reads the hidden states of all of it: its drafts are those made after single
    calls."""
    model, sources = toy_model("pre_norm"), SENTENCES
    more = {"planning": FewRejections(1), "always_draft": False}
    generator = generator_for(model, drafter=block_drafter(model, kind), **more)
    at_once, stepwise, apart = decoded_three_ways(generator, sources, monkeypatch)
    assert at_once == stepwise == apart
    assert at_once[1][COUNTS.index("drafted")] > 0  # once a sentence is left alone
    calls = iterations_of_calls(monkeypatch)
    outputs_of(generator, sources)
    assert max(calls) > 1
    assert len(calls) <= len(sources) + generator.stats.undrafted // 2


def iterations_of_loops(monkeypatch):
    """As ``iterations_of_calls``, of the calls that draft too."""
    return counted_by(monkeypatch, "_speculate")


def test_a_sentence_is_drafted_and_verified_in_one_call(monkeypatch):
    calls = iterations_of_loops(monkeypatch)
    model = toy_model("pre_norm")
    generator = generator_for(model, drafter=block_drafter(model, "gad-attached-unsure"))
    outputs_of(generator, SENTENCES[:1])
    assert len(calls) == 1 and calls[0] > 1
    times = generator.stats.stopwatch.seconds
    assert times["drafter"] > 0 and times["verifier"] > 0


@pytest.mark.parametrize("kind", ["noisy", "gad-attached"])
def test_a_trace_is_the_same_on_both_backends(kind):
    """A drafter that reads hidden states drafts the same only if they are given to its rows."""
    model = toy_model("pre_norm")
    outputs = [h["tokens"].tolist() for h in stock([model], make_sample(SENTENCES), flags())]
    traces = []
    for backend in ("native", "torch"):
        scripted = kind == "noisy"
        drafter = ScriptedDrafter(outputs, kind, WORDS) if scripted else block_drafter(model, kind)
        generator = generator_for(model, drafter=drafter, backend=backend)
        ranked = generator.generate([model], make_sample(SENTENCES))
        traces.append([untimed(h["iterations"]) for (h,) in ranked])
        assert all(one.ms > 0 for (h,) in ranked for one in h["iterations"])
    assert traces[0] == traces[1]


def test_a_tie_is_left_to_the_general_code(monkeypatch):
    model = copy.deepcopy(toy_model())
    projection, half = model.decoder.output_projection, WORDS // 2
    projection.weight = torch.nn.Parameter(projection.weight.clone())  # no embedding any more
    with torch.no_grad():
        weight = projection.weight
        weight[4 : 4 + half] = weight[4 + half : 4 + 2 * half]
    wanted = [h["tokens"].tolist() for h in stock([model], make_sample(SENTENCES), flags())]
    given_up, speculate = [], NativeChains._speculate

    def counted(self, *arguments):
        rounds = speculate(self, *arguments)
        given_up.append(self.undecided is not None)
        return rounds

    monkeypatch.setattr(NativeChains, "_speculate", counted)
    for kind in ("noisy", "empty", "gad", "gad-attached"):
        ours, _ = decode([model], make_sample(SENTENCES), kind, flags(), wanted, backend="native")
        assert [h["tokens"].tolist() for h in ours] == wanted
    assert sum(given_up) > 1


def test_a_token_out_of_the_vocabulary_is_refused():
    class Foreign(ScriptedDrafter):
        def open(self, source):
            session = super().open(source)
            propose = session.propose

            def foreign(hypotheses, budget=None):
                draft = propose(hypotheses, budget)
                return draft._replace(tokens=draft.tokens + 1000)

            session.propose = foreign
            return session

    model = toy_model()
    outputs = [[5, 6, 7]] * len(SENTENCES)
    generator = generator_for(model, drafter=Foreign(outputs, "perfect", WORDS))
    with pytest.raises(ValueError, match="a token that is not in the vocabulary"):
        generator.generate([model], make_sample(SENTENCES))


def test_the_padding_symbol_is_never_output():
    model = copy.deepcopy(toy_model("separate_embeddings"))
    with torch.no_grad():
        weight = model.decoder.output_projection.weight
        weight[PAD] = 2 * weight[EOS]  # likelier than </s> where that is likely
    sample = make_sample(SENTENCES)
    wanted = [h["tokens"].tolist() for h in stock([model], sample, flags(max_len_b=20))]
    ours, _ = decode([model], sample, "greedy", flags(max_len_b=20), backend="native")
    assert [h["tokens"].tolist() for h in ours] == wanted


def test_regret_is_spent_as_on_torch(monkeypatch):
    """In the library's calls, in those that draft too, and where the general code takes over."""
    relaxed = {"top_beta": 9, "tau": 9.0, "regret_budget": 2.0, "drafter_dtype": "same"}

    def outcome(backend, **more):
        generator = make_generator("gad++", lossless=False, backend=backend, **relaxed)
        tokens = [h["tokens"].tolist() for h in toy_decode(generator, make_sample(SENTENCES))]
        return tokens, generator.stats.accepted, generator.stats.iterations

    wanted = outcome("torch")
    calls = iterations_of_calls(monkeypatch)
    looped = iterations_of_loops(monkeypatch)
    assert outcome("native") == wanted
    assert looped and sum(looped) > 0, "the library decided"
    verify = NativeChains._verify

    def every_other(self, draft, *arguments):
        calls.append(0)
        if len(calls) % 2 == 0:
            return verify(self, draft, *arguments)
        self.undecided = draft
        return []

    monkeypatch.setattr(NativeChains, "_verify", every_other)
    monkeypatch.setattr(NativeBlockSession, "native_form", lambda *_: None)
    assert outcome("native") == wanted


def test_sources_may_lie_in_any_order():
    """Column by column, as a transposed tensor does: the padding is still where it is."""
    model = toy_model("pre_norm")
    sample = make_sample(SENTENCES)
    wanted = [h["tokens"].tolist() for (h,) in generator_for(model).generate([model], sample)]
    tokens = sample["net_input"]["src_tokens"]
    assert (tokens == PAD).any()
    sample["net_input"]["src_tokens"] = tokens.t().contiguous().t()
    outputs = generator_for(model).generate([model], sample)
    assert [h["tokens"].tolist() for (h,) in outputs] == wanted
