"""Iterations in one call of the native library: as on torch, and the same bits for all drafts."""

import copy
import dataclasses

import pytest
from pairwise import half
from scripted_drafter import ScriptedDrafter
from toy_strategies import TOYS, bits, check, decode, flags, make_generator, stock
from toy_translation import (
    EOS,
    PAD,
    WORDS,
    make_sample,
    sentences,
    toy_attached_drafter,
    toy_drafter,
    toy_model,
    with_ties,
)

from fairseq_specdec.decoding.builder import Overrides
from fairseq_specdec.decoding.native_chains import NativeChains
from fairseq_specdec.decoding.pace import FewRejections, Planner
from fairseq_specdec.decoding.stats import DecodingStats
from fairseq_specdec.drafting import DraftOptions, NarBlockDrafter
from fairseq_specdec.drafting.copying import InputCopyDrafter, InputCopySession
from fairseq_specdec.drafting.native_block import NativeBlockSession

pytestmark = pytest.mark.usefixtures("with_library")
FORMATS = ["fp32", "bf16", "int8", "int7"]
SENTENCES = sentences(24, seed=7)
SAMPLE = make_sample(SENTENCES)
COUNTS = ("iterations", "emitted", "drafted", "accepted", "rollbacks")


def generator_for(model, number_format="fp32", args=None, drafter=None, planning=None, trace=True):
    """Whole drafts, unless there is a ``planning``."""
    return make_generator(
        "greedy", args, [model], backend="native", verifier_dtype=number_format,
        overrides=Overrides(drafter, keep_trace=trace, planning=planning),
        **({} if planning is None else {"draft_budget": None}),
    )  # fmt: skip


def block_drafter(number_format="fp32", attached=None):
    """``attached``: the shape of the verifier that it reads; it drafts what it is sure of."""
    if attached is None:
        model, confidence = toy_drafter(), 0.0
    else:
        model, confidence = toy_attached_drafter(attached, 4, 80, chain_width=16), 0.4
    options = DraftOptions(4, PAD, EOS, number_format, confidence=confidence)
    return NarBlockDrafter(copy.deepcopy(model), options)


def outputs_of(generator, sources, left=True):
    """(tokens, scores) of every sentence, to the bit."""
    return bits(decode(generator, make_sample(sources, left)))


def one_by_one(generator, sources):
    return [outputs_of(generator, [source])[0] for source in sources]


@pytest.mark.parametrize(
    "shape, number_format", half(["pre_norm", "layernorm_embedding", "narrow_output"], FORMATS)
)
def test_every_draft_leads_to_the_bits_of_greedy(shape, number_format):
    """Of other shapes than those of test_parity.py, and however long the drafts."""
    model = toy_model(shape)
    wanted = one_by_one(generator_for(model, number_format), SENTENCES)
    outputs = [tokens for tokens, _ in wanted]
    assert len(set(map(tuple, outputs))) > len(outputs) / 2
    assert outputs_of(generator_for(model, number_format), SENTENCES, left=False) == wanted
    drafters = [ScriptedDrafter(outputs, "noisy", WORDS, size) for size in (1, 8)]
    drafters += [block_drafter("bf16"), block_drafter("int8")]
    if shape != "narrow_output":
        drafters.append(block_drafter(attached=shape))
    for drafter in drafters:
        assert outputs_of(generator_for(model, number_format, drafter=drafter), SENTENCES) == wanted


@pytest.mark.parametrize("unkpen", [0.0, 2.5, -2.5])
@pytest.mark.parametrize("case", ["greedy", "iad", "gad"])
def test_ties_and_likely_symbols_are_as_in_stock(case, unkpen):
    """Sentence by sentence: torch decides for all rows of a batch in which one has a tie."""
    model, args = with_ties(toy_model()), flags(unkpen=unkpen)
    generator = make_generator(case, args, [model], backend="native")
    for source in SENTENCES[:12]:
        sample = make_sample([source])
        check(decode(generator, sample), stock([model], sample, args))


@pytest.mark.parametrize("case", ["gad", "gad-attached", "sps"])
@pytest.mark.parametrize("number_format, drafter_format", half(["fp32", "int8"], ["bf16", "int8"]))
def test_drafts_in_a_format_of_their_own(case, number_format, drafter_format):
    wanted = one_by_one(generator_for(TOYS[case].verifier(), number_format), SENTENCES)
    formats = {"verifier_dtype": number_format, "drafter_dtype": drafter_format}
    drafted = make_generator(case, backend="native", **formats)
    assert outputs_of(drafted, SENTENCES) == wanted and drafted.stats.accepted > 0
    with pytest.raises(ValueError, match="--drafter-dtype int8: needs the native backend"):
        decode(make_generator("gad", backend="torch", drafter_dtype="int8"), SAMPLE)


def test_the_rows_of_a_batch_are_drafted_for_by_their_own_states():
    accepted = []
    for batches in ([SENTENCES], [[one] for one in SENTENCES]):
        generator = generator_for(toy_model("pre_norm"), drafter=block_drafter(attached="pre_norm"))
        for sources in batches:
            decode(generator, make_sample(sources))
        accepted.append(generator.stats.accepted)
    assert accepted[0] == accepted[1] > 20


def counted_by(monkeypatch, drafts):
    """A list that takes how many iterations each call does that drafts, or that does not."""
    method, calls = NativeChains.decode, []

    def counted(self, draft, drafting, most):
        answer = method(self, draft, drafting, most)
        if (drafting is not None) == drafts:
            calls.append(self.call.done)
        return answer

    monkeypatch.setattr(NativeChains, "decode", counted)
    return calls


def everything(hypotheses):
    """Of each sentence its tokens, scores and trace, but for the times."""
    timeless = dict.fromkeys(("ms", "drafter_ms", "verifier_ms"), 0)
    traces = [[dataclasses.replace(i, **timeless) for i in h["iterations"]] for h in hypotheses]
    return [(*one, trace) for one, trace in zip(bits(hypotheses), traces)]


def decoded_three_ways(generator, sources, monkeypatch):
    """Several drafts in a call, one draft in a call, and calls for each part; with the counts."""

    def iteration_by_iteration(generator, sample):
        with generator.batch(generator.models, sample) as batch:
            while batch.live:
                batch.iterate()
        return [h for (h,) in batch.finished]

    answers = []
    for decode_batch, joined in ((decode, True), (iteration_by_iteration, True), (decode, False)):
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
REPEATING = [[4 + i * i % 3 for i in range(size)] + [EOS] for size in range(2, 14)]
DRAFTERS = {
    "block": block_drafter,
    "attached": lambda: block_drafter(attached="pre_norm"),
    "copied": lambda: InputCopyDrafter(PAD, EOS),
    "copied by any suffix": lambda: InputCopyDrafter(PAD, EOS, max_suffix=None),
    "copied, short": lambda: InputCopyDrafter(PAD, EOS, block_size=3, max_suffix=1),
}


@pytest.mark.parametrize("drafts", DRAFTERS)
@pytest.mark.parametrize("column, limit", [(0.01, 200), (0.25, 200), (0.01, 4)])
def test_drafts_in_a_loop_are_those_made_one_by_one(drafts, column, limit, monkeypatch):
    """The same drafts, verdicts, hidden states and pauses, for one sentence, which may pause
    drafting, and for several. What several drafts in a call share is their plan, so that these may
    be others than those made one by one."""
    model, args = toy_model("pre_norm"), flags(max_len_b=limit)
    sources, share = (SENTENCES[:10] + REPEATING, 0.0) if "copied" in drafts else (SENTENCES, 0.1)
    planning = Planner(4, column=column, share=share, measured=False)
    batches = [(planning, [[one] for one in sources[::3]]), (None, [sources])]
    if "copied" not in drafts and column == 0.25:  # once a sentence is left alone it is drafted for
        batches.append((FewRejections(1), [sources]))
    for plan, samples in batches:
        generator = generator_for(model, args=args, drafter=DRAFTERS[drafts](), planning=plan)
        drafted = 0
        for sample in samples:
            at_once, stepwise, apart = decoded_three_ways(generator, sample, monkeypatch)
            assert stepwise == apart
            if plan is not planning:
                assert at_once == stepwise
            assert [one[:2] for one in at_once[0]] == [one[:2] for one in stepwise[0]]
            drafted += at_once[1][COUNTS.index("drafted")]
        assert drafted > 0


@pytest.mark.parametrize("drafts", [False, True], ids=["greedy", "a drafter that pauses"])
def test_iterations_without_a_trace_are_counted_as_those_with_one(drafts, monkeypatch):
    """Without one, those that a call does alike are booked together."""
    model, counted = toy_model("pre_norm"), []
    calls = counted_by(monkeypatch, False)
    for trace in (False, True):
        drafter = block_drafter() if drafts else None
        generator = generator_for(model, drafter=drafter, planning=FewRejections(1), trace=trace)
        steps = [h["steps"] for h in decode(generator, SAMPLE)]
        figures = generator.stats.as_dict()
        kept = {k: v for k, v in figures.items() if "seconds" not in k and "cost" not in k}
        counted.append((steps, generator.stats.judged, kept))
    assert counted[0] == counted[1] and max(calls) > 1
    assert len(set(counted[0][0])) > 2 and counted[0][2]["undrafted_iterations"] > 6


@pytest.mark.parametrize("drafts", [None, "copied", "attached"])
def test_a_sentence_is_decoded_in_one_call(drafts, monkeypatch):
    """Also where flags constrain it."""
    calls = counted_by(monkeypatch, drafts is not None)
    model, args = toy_model("pre_norm"), flags(min_len=2, unkpen=2.5, temperature=0.3)
    generator = generator_for(model, args=args, drafter=drafts and DRAFTERS[drafts]())
    sources = SENTENCES if drafts == "copied" else SENTENCES[:1]
    one_by_one(generator, sources)
    assert len(calls) == len(sources) and max(calls) > 1
    times = generator.stats.stopwatch.seconds
    assert times["verifier"] > 0 and (drafts is None or times["drafter"] > 0)


def test_a_token_out_of_the_vocabulary_is_refused():
    drafter = ScriptedDrafter([[1005, 1006, 1007, EOS]] * len(SENTENCES), "perfect", WORDS)
    with pytest.raises(ValueError, match="a token that is not in the vocabulary"):
        decode(generator_for(toy_model(), drafter=drafter), SAMPLE)
