"""``SpeculativeTranslator`` on the toy pair: the same output as the engine, in any order."""

import shutil
from argparse import Namespace

import pytest
import torch
from toy_pair import text_of
from toy_strategies import flags, stock_beams
from toy_translation import assert_diverse, make_sample, make_task, sentences, toy_model

from fairseq_specdec.hub import Piece, SpeculativeTranslator, Translation
from fairseq_specdec.hub.loading import Place, find

SOURCES = sentences(30, seed=9)
TEXTS = [text_of(line) for line in SOURCES]


def load(pair, strategy="gad", **flags):
    if strategy in ("gad", "gad++"):
        flags.setdefault("drafter", pair / "drafter.pt")
    return SpeculativeTranslator.from_pretrained(
        pair / "verifier.pt", strategy=strategy, device="cpu", **flags
    )


@pytest.fixture(scope="module")
def gad(pair):
    # How much else is drafted depends on the sentences before.
    return load(pair, batch_size=7, draft_budget=0)


@pytest.mark.parametrize("strategy, size", [("gad++", 1), ("greedy", 16)])
def test_batches_are_small_where_their_size_changes_the_text(pair, strategy, size):
    assert load(pair, strategy).batch_size == size
    assert load(pair, strategy, batch_size=3).batch_size == 3


def stock(sources, beam=1, nbest=1, **more):
    """(words, score) of the best hypotheses of each sentence, as fairseq says."""
    words, args = make_task().target_dictionary, flags(beam, **more)
    ranked = (stock_beams([toy_model()], make_sample([one]), args)[0] for one in sources)
    return [
        [
            ([words[t] for t in one["tokens"].tolist()[:-1]], float(one["score"]))
            for one in best[:nbest]
        ]
        for best in ranked
    ]


def test_batches_give_back_the_order(gad):
    results = gad.translate(TEXTS)
    assert_diverse([result.tokens for result in results])
    for result, ((tokens, score),) in zip(results, stock(SOURCES)):
        assert result.tokens == tokens
        assert result.text == str(result) == " ".join(tokens)
        assert result.score == pytest.approx(score, abs=1e-4)
        assert result.iterations == len(result.accepted) == len(result.drafted)
        # All that is emitted is accepted or the verifier's, one an iteration but perhaps the last.
        assert 0 <= sum(result.accepted) + result.iterations - len(tokens) - 1 <= 1
        assert all(a <= d <= 4 for a, d in zip(result.accepted, result.drafted))
        assert result.trace is None
    assert results[3].text == gad.translate(TEXTS[3]).text
    assert [results[3].text] == [each.text for each in gad.translate(iter(TEXTS[3:4]))]
    assert sum(r.iterations for r in results) < sum(len(r.tokens) + 1 for r in results)


def test_nothing_is_translated_to_nothing(gad):
    before = gad.stats.sentences
    for text in ("", "  \n\t"):
        assert gad.translate(text) == Translation("", [], 0.0, 0, [], [], 0)
        assert list(gad.translate_stream(text)) == []
    assert gad.stats.sentences == before


def test_unknown_words_are_counted_and_other_things_refused(gad):
    result = gad.translate("w1 漢 \ud800 w2")
    assert result.unknown == 2 and result.tokens
    for call in (gad.translate, gad.translate_stream, gad.translate_as_completed):
        with pytest.raises(TypeError, match=r"^texts\[\d\]: expected a string, got"):
            call(["w1", 2])


def test_what_is_too_long_can_be_cut(pair):
    long = " ".join(["w1"] * 70)
    cut = load(pair, too_long="truncate", max_len_b=8, split=False)
    assert cut.translate(long).tokens == cut.translate(" ".join(["w1"] * 63)).tokens


@pytest.mark.parametrize("flags", [{}, {"strategy": "none", "beam": 3}], ids=str)
def test_a_stream_grows_to_the_text(gad, flags):
    """With a beam, what all hypotheses have."""
    several = 0
    for text in TEXTS[:12]:
        whole = gad.translate(text, **flags)
        pieces = list(gad.translate_stream(text, **flags))
        assert "".join(pieces) == whole.text and all(pieces)
        traced = list(gad.translate_stream(text, return_trace=True, **flags))
        assert all(isinstance(piece, Piece) for piece in traced)
        assert "".join(piece.text for piece in traced) == whole.text
        assert [p.iteration is None for p in traced] == [False] * whole.iterations + [True]
        assert [p.iteration.accepted for p in traced[:-1]] == whole.accepted
        emitted = sum((p.iteration.emitted for p in traced[:-1]), [])
        assert emitted == [*whole.tokens, "</s>"]
        several += len(pieces) > 1
    assert several > 6


def test_an_abandoned_stream_gives_way(gad):
    longest = max(TEXTS, key=len)
    stream = gad.translate_stream(longest)
    first = next(stream)
    whole = gad.translate(longest).text  # in the middle of it, from the same thread
    assert first + "".join(stream) == whole
    next(gad.translate_stream(longest))
    assert gad.translate(longest).text == whole


def test_sampling_repeats_itself_with_a_seed(pair):
    flags = {"sampling": True, "temperature": 2.0}
    seeded = load(pair, "greedy", seed=4, **flags)
    state = torch.get_rng_state()
    first = [result.text for result in seeded.translate(TEXTS)]
    assert torch.equal(torch.get_rng_state(), state)
    assert [result.text for result in seeded.translate(TEXTS)] == first
    other = load(pair, "greedy", seed=5, **flags)
    assert [result.text for result in other.translate(TEXTS)] != first


def test_bf16_and_an_ensemble(pair):
    half = load(pair, "greedy", dtype="bf16")
    assert next(half.generator.models[0].parameters()).dtype == torch.bfloat16
    assert len(half.translate(TEXTS[:4])) == 4
    paths = [pair / "verifier.pt", pair / "other.pt"]
    both = SpeculativeTranslator.from_pretrained(paths, strategy="iad", device="cpu")
    joined = SpeculativeTranslator.from_pretrained(
        f"{paths[0]}:{paths[1]}", strategy="greedy", device="cpu"
    )
    assert [r.tokens for r in both.translate(TEXTS)] == [r.tokens for r in joined.translate(TEXTS)]
    assert both.settings["ensemble"] == 2


@pytest.mark.parametrize("name", ["checkpoint_best.pt", "checkpoint_last.pt"])
def test_the_folder_of_a_training_is_enough(pair, tmp_path, name):
    folder = shutil.copytree(pair, tmp_path / "trained")
    (folder / "verifier.pt").rename(folder / name)
    (folder / "drafter.pt").unlink()
    translator = SpeculativeTranslator.from_pretrained(folder, device="cpu")
    assert translator.strategy == "greedy" and translator.translate(TEXTS[0]).text


def test_task_settings_may_be_a_namespace(pair, tmp_path):
    """fairseq 1.0.0a0 keeps them so; languages and padding come from there."""
    state = torch.load(str(pair / "verifier.pt"), weights_only=False)
    settings = {"data": str(pair), "source_lang": "src", "target_lang": "tgt"}
    task = Namespace(_name="translation", left_pad_source=False, **settings)
    state.update(args=None, cfg={"model": state["args"], "task": task})
    torch.save(state, str(tmp_path / "verifier.pt"))
    translator = SpeculativeTranslator.from_pretrained(tmp_path / "verifier.pt", strategy="iad")
    assert translator.translate(["w1 w2"])[0].text == load(pair, "iad").translate("w1 w2").text


def test_the_default_strategy_is_lossless(pair):
    load_default = SpeculativeTranslator.from_pretrained
    beside = load_default(pair, device="cpu")
    given = load_default(pair / "verifier.pt", pair / "drafter.pt", device="cpu")
    alone = load_default(pair / "verifier.pt", device="cpu")
    assert [t.strategy for t in (beside, given, alone)] == ["gad", "gad", "greedy"]
    assert beside.settings["drafter_path"] == str(pair / "drafter.pt")
    assert find(pair, None, None).drafter == str(pair / "drafter.pt")
    expected = [one[0][0] for one in stock(SOURCES[:8])]
    for translator in (beside, given, alone):
        assert [result.tokens for result in translator.translate(TEXTS[:8])] == expected


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"block_size": 9}, ValueError, "^block_size 9: the drafter .* blocks of 4"),
        ({"drafter": "nowhere.pt"}, ValueError, "^drafter: no such file: nowhere.pt"),
        ({"dtype": "fp8"}, ValueError, "^dtype fp8: choose one of fp32, fp16, bf16"),
        ({"too_long": "cut"}, ValueError, "^too_long 'cut': choose refuse or truncate"),
        ({"data": "/nowhere"}, FileNotFoundError, "^data: no such folder: /nowhere"),
        ({"source_lang": "xx"}, FileNotFoundError, "^source_lang xx: no dict.xx.txt in "),
        ({"temperature": float("inf")}, ValueError, "^temperature inf: must be a finite number"),
        ({"bpe_codes": "c", "bpe": None}, ValueError, "^bpe_codes: bpe is None"),
    ],
    ids=str,
)
def test_mistakes_are_named(pair, changes, error, message):
    with pytest.raises(error, match=message):
        load(pair, **dict({"strategy": "gad"}, **changes))


def test_a_verifier_that_is_none(pair, tmp_path):
    (tmp_path / "v.pt").write_text("no checkpoint")
    for verifier, message in (
        (tmp_path / "v.pt", "verifier: .*v.pt: cannot be read as a checkpoint"),
        ("gone.pt", "verifier: no such file: gone.pt; .*demo_ende"),
        ([], "^verifier: no such file"),
    ):
        with pytest.raises(ValueError, match=message):
            SpeculativeTranslator.from_pretrained(verifier, data=pair, strategy="greedy")


def test_a_demo_pair_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fairseq_specdec.hub.loading.CHECKOUT", str(tmp_path / "a"))
    with pytest.raises(FileNotFoundError, match="demo_ende: not in .*checkout.*path/to"):
        find("demo_ende", None, None)
    folder = tmp_path / "data-bin/demo_ende"
    folder.mkdir(parents=True)
    (folder / "verifier.pt").touch()
    found = find("demo_ende", None, None)
    assert found == Place([f"{folder}/verifier.pt"], None, str(folder))
