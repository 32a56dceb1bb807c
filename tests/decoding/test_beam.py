"""The exactness contract of beam search: every hypothesis is stock's, with its scores."""

import copy

import pytest
import torch
from drafted import activated
from fairseq.search import BeamSearch
from toy_strategies import check_beams, flags, look_ahead, make_generator, stock_beams
from toy_translation import EOS, SHAPES, WORDS, assert_diverse, make_sample, sentences, toy_model

from fairseq_specdec.decoding.beam.lookahead import Reach
from fairseq_specdec.decoding.beam.search import BeamBatch
from fairseq_specdec.engine.devices import PACKED
from fairseq_specdec.engine.native.library import load

SENTENCES = sentences(16, seed=7)


def generator_of(models, args, strategy="greedy", **settings):
    return make_generator(strategy, args, models, draft_budget=None, **settings)


def ours(models, sample, args, **settings):
    return generator_of(models, args, **settings).generate(models, sample)


def compare(models, args, left=True, chosen=SENTENCES, **settings):
    sample = make_sample(chosen, left)
    expected = stock_beams(models, sample, args)
    for backend in ("torch", "auto"):
        check_beams(ours(models, sample, args, backend=backend, **settings), expected)
    return expected


@pytest.mark.parametrize("shape", SHAPES)
def test_equals_stock_for_every_shape_of_verifier(shape):
    """All else is in test_parity.py."""
    expected = compare([toy_model(shape)], flags(5), left=False)
    assert_diverse([h["tokens"].tolist() for ranked in expected for h in ranked])


@pytest.mark.parametrize("make, changes, chosen", [
    (lambda: [toy_model(), toy_model("pre_norm"), toy_model("learned", seed=2)], {}, SENTENCES),
    (lambda: [copy.deepcopy(toy_model("pre_norm")).double()], {}, SENTENCES),
    (lambda: [toy_model("learned")], {"max_len_b": 200, "min_len": 50}, SENTENCES[:3]),
], ids=["ensemble", "double precision", "up to the last learned position"])  # fmt: skip
def test_equals_stock(make, changes, chosen):
    compare(make(), flags(5, **changes), chosen=chosen)


@pytest.mark.parametrize("backend", ["torch", "auto"])
@pytest.mark.parametrize("strategy", ["greedy", "iad"])
def test_words_that_are_equal_differ_in_no_score(strategy, backend):
    """Two rows of the embeddings are one: which of the two words is taken, is nobody's promise."""
    model, half = copy.deepcopy(toy_model()), WORDS // 2
    with torch.no_grad():
        table = model.decoder.embed_tokens.weight
        table[4 : 4 + half] = table[4 + half : 4 + 2 * half]

    def ranked(hypotheses):
        return sorted(
            ([4 + (t - 4) % half if t >= 4 else t for t in h["tokens"].tolist()], float(h["score"]))
            for h in hypotheses
        )

    sample, args = make_sample(SENTENCES), flags(4)
    outputs = ours([model], sample, args, strategy=strategy, backend=backend)
    for mine, theirs in zip(map(ranked, outputs), map(ranked, stock_beams([model], sample, args))):
        assert [tokens for tokens, _ in mine] == [tokens for tokens, _ in theirs]
        for (_, score), (_, other) in zip(mine, theirs):
            assert score == pytest.approx(other, abs=1e-4)


@pytest.mark.parametrize("backend", ["torch", "auto"])
@pytest.mark.parametrize("beam", [1, 3])
def test_a_word_that_equals_the_end_matters_at_one_place(beam, backend, monkeypatch):
    """Hypotheses differ only where such a tie spans the places N and N + 1; at beam 1 nowhere."""
    model, args, ties, step = copy.deepcopy(toy_model()), flags(beam), [], BeamSearch.step
    with torch.no_grad():
        model.decoder.embed_tokens.weight[9] = model.decoder.embed_tokens.weight[EOS]

    def watched(*given, **more):
        scores, tokens, beams = step(*given, **more)
        last, after = scores[:, beam - 1], scores[:, beam]
        ties.append(((last == after) & (tokens[:, beam - 1 : beam + 1] == EOS).any(1)).any())
        return scores, tokens, beams

    monkeypatch.setattr(BeamSearch, "step", watched)
    tied = 0
    for sentence in sentences(40, seed=7):
        ties.clear()
        expected = stock_beams([model], make_sample([sentence]), args)
        tied += any(ties)
        if beam == 1 or not any(ties):
            check_beams(ours([model], make_sample([sentence]), args, backend=backend), expected)
    assert tied == 40 if beam == 1 else 0 < tied < 40


@pytest.mark.skipif(load() is None, reason="no native library here")
@pytest.mark.parametrize("number_format", PACKED)
@pytest.mark.parametrize(
    "shape, activation",
    [("post_norm", "relu"), ("pre_norm", "gelu"), ("layernorm_embedding", "gelu_accurate"),
     ("narrow_output", "tanh"), ("no_positions", "swish")],
)  # fmt: skip
def test_natively_all_bits_are_those_of_the_search_without_drafts(
    shape, activation, number_format, monkeypatch
):
    """In every number format; and those of the sentence alone."""
    models, args = [activated(toy_model(shape), activation)], flags(4)

    def bits(strategy, chosen):
        sample = make_sample(chosen)
        outputs = ours(models, sample, args, strategy=strategy, verifier_dtype=number_format)
        return [
            [(h["tokens"].tolist(), h["positional_scores"].tolist()) for h in hypotheses]
            for hypotheses in outputs
        ]

    expected = bits("greedy", SENTENCES)
    for reach in [(1, 2), (30, 100)]:
        look_ahead(monkeypatch, Reach(*reach))
        assert bits("iad", SENTENCES) == expected
        assert [bits("iad", [sentence])[0] for sentence in SENTENCES[:6]] == expected[:6]


@pytest.mark.parametrize("backend", ["torch", "auto"])
def test_a_trace_records_what_each_pass_did(backend, monkeypatch):
    look_ahead(monkeypatch, Reach(3, 4))
    models, args = [toy_model()], flags(3, retain_iter_history=True)
    generator = generator_of(models, args, "iad", backend=backend)
    kept = dropped = early = 0
    for sentence in SENTENCES[:12]:
        with generator.batch(models, make_sample([sentence])) as batch:
            while batch.live:
                batch.iterate()
        parts = batch.trace(0)
        before, waiting = [[]], 1
        ended = [h["tokens"].tolist() for h in batch.finished[0]]
        for number, part in enumerate(parts):
            one, beam = part.beam, [h.tokens for h in part.beam.hypotheses]
            assert one.scored - one.drafted == waiting
            waiting = sum(h.waits for h in one.hypotheses)
            assert len(beam) == part.live and {len(t) for t in beam} <= {len(before[0]) + one.steps}
            assert all(tokens[: len(before[0])] in before for tokens in beam)
            assert (waiting > 0) == (number + 1 < len(parts))
            agreed = sum((p.emitted for p in parts[: number + 1]), [])
            assert all(tokens[: len(agreed)] == agreed for tokens in beam)
            for draft in one.draft:
                assert 0 <= draft.kept <= len(draft.tokens) - draft.known <= one.drafted
                kept += draft.kept
                dropped += len(draft.tokens) - draft.known - draft.kept
                # A kept prefix and a hypothesis: one begins with the other.
                stays = draft.tokens[: draft.known + draft.kept]
                fits = [t[: len(stays)] == stays[: len(t)] for t in beam + ended]
                assert draft.kept == 0 or any(fits)
            before = beam
            early += len(part.emitted) * (waiting > 0)
        assert sum(p.beam.scored for p in parts) >= sum(p.beam.used for p in parts)
    stats = generator.stats
    assert kept > 0 and dropped > 0 and early > 12 and stats.accepted > 0
    assert stats.scored > stats.drafted > 0


def test_slots_of_dropped_prefixes_are_used_again():
    """The row stays about as long as the hypotheses, not as all that was looked at."""
    models, args = [toy_model()], flags(5, min_len=30, max_len_b=30)
    generator = generator_of(models, args, backend="torch")
    with generator.batch(models, make_sample(SENTENCES)) as batch:
        assert isinstance(batch, BeamBatch)
        while batch.live:
            batch.iterate()
            assert max(s.slots for s in batch.sentences) < 120  # of 151 prefixes
    assert batch.stats.iterations == 31 * len(SENTENCES)


@pytest.mark.skipif(load() is None, reason="no native library here")
def test_natively_a_draft_without_a_number_changes_nothing(monkeypatch):
    """Drafts copied from the source say a word without an embedding; the outputs do not. What the
    library has for the tokens after it is token 0, and no draft says that."""
    model, met, drafted_after = copy.deepcopy(toy_model()), 0, set()
    # The encoder and the vocabulary keep the rows that the decoder's embeddings lose.
    model.decoder.embed_tokens = copy.deepcopy(model.decoder.embed_tokens)
    look_ahead(monkeypatch, Reach(3, 9))
    for sentence in SENTENCES:
        sample = make_sample([sentence])
        expected = ours([model], sample, flags(4))
        for word in set(sample["net_input"]["src_tokens"][0].tolist()) - {2}:
            broken = copy.deepcopy(model)
            broken.decoder.embed_tokens.weight.data[word] = float("nan")
            try:
                outputs = ours([broken], sample, flags(4))
            except ValueError:
                continue  # a hypothesis says the word
            check_beams(outputs, expected)
            outputs = ours([broken], sample, flags(4, retain_iter_history=True), strategy="iad")
            check_beams(outputs, expected)
            parts = outputs[0][0]["iterations"]
            drafts = [one.tokens for part in parts for one in part.beam.draft]
            said = [tokens for tokens in drafts if word in tokens]
            met += len(said)
            drafted_after.update(*(tokens[tokens.index(word) + 1 :] for tokens in said))
    assert met > 0 and 0 not in drafted_after
