"""``learn_vocabulary``: the tokens that outputs use most, for the next start."""

import pytest
from toy_pair import text_of
from toy_translation import sentences

from fairseq_specdec.drafting import vocabulary
from fairseq_specdec.hub import SpeculativeTranslator

TEXTS = [text_of(line) for line in sentences(12, seed=3)]


def load(pair, path, **flags):
    flags = {"strategy": "greedy", **flags}
    return SpeculativeTranslator.from_pretrained(
        pair, device="cpu", learn_vocabulary=str(path), **flags
    )


def test_the_next_run_begins_with_what_outputs_used(pair, with_library, tmp_path, monkeypatch):
    """Tokens of this run first, the most used one at the top, then those of runs before."""
    monkeypatch.setattr(vocabulary, "LISTED", 5)
    path, found = tmp_path / "list", []
    for some in (TEXTS[:1], TEXTS[1:7], TEXTS[1:2]):
        before = path.read_text(encoding="utf-8").split() if path.exists() else []
        with load(pair, path) as translator:
            listed = translator.generator.vocabulary
            assert (listed.tokens.tolist() if listed else []) == [
                translator.codec.tgt_dict.index(token) for token in before
            ]
            outputs = translator.translate(some)
            streamed = "".join(translator.translate_stream(some[0]))
            assert streamed == outputs[0].text and (translator.stats.windows > 0) == bool(before)
        found += outputs
        used = [token for one in [*outputs, outputs[0]] for token in [*one.tokens, "</s>"]]
        after = path.read_text(encoding="utf-8").split()
        assert len(set(after)) == len(after) <= 5
        new = min(5, len(set(used)))
        counts = list(map(used.count, after[:new]))
        assert counts == sorted(map(used.count, set(used)), reverse=True)[:new]
        assert after[new:] == [token for token in before if token not in used][: 5 - new]
    plain = SpeculativeTranslator.from_pretrained(pair, device="cpu", strategy="greedy")
    expected = [e for one in (TEXTS[:1], TEXTS[1:7], TEXTS[1:2]) for e in plain.translate(one)]
    assert [(one.text, one.scores) for one in found] == [(e.text, e.scores) for e in expected]
    assert [each.name for each in tmp_path.iterdir()] == ["list"]


def test_a_file_that_cannot_be_written_is_refused_at_the_start(pair, tmp_path, caplog):
    for path, flags, message in (
        (tmp_path / "none" / "list", {}, "no such directory"),
        (tmp_path, {}, "is a directory"),
        (tmp_path / "list", {"strategy": "gad++"}, r"strategy gad\+\+ reads no list"),
    ):
        with pytest.raises(ValueError, match=f"^learn_vocabulary.*{message}"):
            load(pair, path, **flags)
    folder = tmp_path / "gone"
    folder.mkdir()
    with load(pair, folder / "list") as translator:
        translator.translate(TEXTS[0])
        folder.rmdir()
    (record,) = caplog.records[-1:]
    assert "list is not written: No such file" in record.getMessage()


def test_nothing_is_written_without_an_output(pair, tmp_path):
    load(pair, tmp_path / "list").close()
    assert not (tmp_path / "list").exists()
