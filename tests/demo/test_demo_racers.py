"""Strategies on one verifier."""

import pytest
from toy_pair import text_of
from toy_translation import sentences

from fairseq_specdec.demo.racers import Pair, load_racers
from fairseq_specdec.hub import SpeculativeTranslator

TEXT = text_of(sentences(1, seed=5)[0])


def models(translator):
    return translator.generator.models


def test_one_verifier_and_one_drafter_in_memory(racers):
    ours = racers.translators
    assert list(ours) == ["greedy", "gad", "gad++"]
    assert all(models(t)[0] is models(ours["greedy"])[0] for t in ours.values())
    drafters = [ours[name].generator.drafter for name in ("gad", "gad++")]
    assert drafters[0] is not drafters[1] and drafters[0].model is drafters[1].model
    assert ours["gad++"].settings["top_beta"] == 3 and "top_beta" not in ours["gad"].settings
    assert racers.languages == ("src", "tgt")


def test_they_decode_as_translators_of_their_own(racers, pair):
    whole = {"draft_budget": 0}
    flags = {"greedy": {}, "gad": whole, "gad++": {"top_beta": 3, "tau": 3.0, **whole}}
    for name, translator in racers.translators.items():
        alone = SpeculativeTranslator.from_pretrained(
            pair, strategy=name, device="cpu", **flags[name]
        )
        for line in sentences(5, seed=6):
            ours, theirs = translator.translate(text_of(line)), alone.translate(text_of(line))
            assert ours.tokens == theirs.tokens and ours.accepted == theirs.accepted


def test_a_small_model_joins_the_race(pair):
    asked = Pair(str(pair), small=str(pair / "other.pt"), device="cpu")
    racers = load_racers(asked, None, {"block_size": 2})
    assert list(racers.translators) == ["greedy", "gad", "gad++", "sps", "bild"]
    small = [racers.translators[name].generator.drafter.model for name in ("sps", "bild")]
    assert small[0] is small[1]
    exact = {racers.translators[name].translate(TEXT).text for name in ("greedy", "gad", "sps")}
    assert len(exact) == 1
    assert max(racers.translators["gad"].translate(TEXT).drafted) <= 2


def test_without_a_drafter_the_source_drafts(pair):
    asked = Pair(str(pair / "verifier.pt"), device="cpu")
    assert list(load_racers(asked, None, {}).translators) == ["greedy", "iad"]


@pytest.mark.parametrize(
    "path, names, message",
    [
        ("", ["gad", "sps"], "--strategies sps: needs a small Transformer; .*--small-path"),
        ("verifier.pt", ["gad"], "--strategies gad: needs a block drafter; .*--drafter-path"),
        ("", ["gda"], "--strategies gda: unknown; choose of greedy, none, iad"),
    ],
)
def test_who_cannot_race_is_named(pair, monkeypatch, path, names, message):
    monkeypatch.setattr("fairseq_specdec.hub.loading.load", None)  # no model is loaded for that
    with pytest.raises(ValueError, match=message):
        load_racers(Pair(str(pair / path), device="cpu"), names, {})


def test_files_and_values_are_checked_first(pair, monkeypatch):
    monkeypatch.setattr("fairseq_specdec.hub.loading.load", None)
    with pytest.raises(ValueError, match="--small-path nowhere.pt: no such file"):
        load_racers(Pair(str(pair), small="nowhere.pt", device="cpu"), ["bild"], {})
    with pytest.raises(ValueError, match="--block-size 0"):
        load_racers(Pair(str(pair), device="cpu"), ["gad"], {"block_size": 0})


def test_examples_come_from_the_held_out_text(pair, tmp_path):
    for name in ("verifier.pt", "dict.src.txt", "dict.tgt.txt"):
        (tmp_path / name).symlink_to(pair / name)
    lines = ["short", "x" * 200, *(f"{i} " + "w1 " * 20 for i in range(5))]
    asked = Pair(str(tmp_path), source_lang="src", target_lang="tgt", device="cpu")
    (tmp_path / "heldout.src").write_text("\n".join(lines), encoding="utf-8")
    racers = load_racers(asked, ["greedy"], {})
    assert [line.split()[0] for line in racers.examples] == ["0", "1", "2"]
