"""Texts of several sentences: how they are split, decoded and put together again."""

import pytest
from fairseq.data import Dictionary
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_pair import text_of
from toy_translation import sentences

from fairseq_specdec.hub import SpeculativeTranslator, Translation
from fairseq_specdec.hub.batching import parts_of
from fairseq_specdec.hub.sentences import SPLITS, copied, fitting, sentences_of
from fairseq_specdec.hub.text import TextCodec

LINES = [text_of(line) for line in sentences(4, seed=5)]
TEXT = f"\n- {LINES[0]}\r\n\n  1. {LINES[1]}. {LINES[2]}!  \n---\n2026\t\n{LINES[3]}\n"


@pytest.fixture(scope="module")
def translator(pair):
    return SpeculativeTranslator.from_pretrained(
        pair, strategy="gad", device="cpu", batch_size=3, beam=1, draft_budget=0
    )


@pytest.mark.parametrize(
    "text, language, expected",
    [
        ("Save.\n\nAs.", "en", ["Save.", "As."]),
        ("Save it. Open it.", "en", ["Save it.", "Open it."]),
        ("  Dr. Smith has 3.5 kg, e.g. of v1.2.\n", "en", None),
        ("- Save.\n* As.\n12) New [file]\n  b) # Open\n> > All", "en",
         ["Save.", "As.", "New [file]", "Open", "All"]),
        ("•Save\n- [x] As\n-5 is low", "en", ["Save", "As", "-5 is low"]),
        ("Title\n=====\n1,5\n😀\nText", "en", ["Title", "Text"]),
        ("1. First part. 2. Second part.", "en", ["First part.", "Second part."]),
        ("Call java.util.List.Of it. Save.", "en", ["Call java.util.List.Of it.", "Save."]),
        ("A\rB\u2028C\x85D", "en", ["A", "B", "C", "D"]),
        ("Das ist bzw. war gut. Ja.", "deu_Latn", ["Das ist bzw. war gut.", "Ja."]),
        ("你好。你吃了吗？我很好！", "zho_Hans", ["你好。", "你吃了吗？", "我很好！"]),
        ("Is it B\u00a0? B\u3000. \ud800a", "fr", ["Is it B\u00a0?", "B\u3000. \ud800a"]),
        ("\u200b\n\ufeff", "en", None),
        ("", "en", None),
    ],
)  # fmt: skip
def test_what_a_sentence_is(text, language, expected):
    assert sentences_of(text, language)[1::2] == (expected or [text])
    assert sentences_of(text, language, False) == ["", text, ""]


BITS = "- |1. |W.|a|b, |c; |e.g. |? |\n|\r\n|\u3000|。|，|\ud800|\u200b".split("|")
MIXED = st.lists(st.sampled_from(BITS) | st.text(max_size=3), max_size=30).map("".join)


@settings(max_examples=100, deadline=None)
@given(MIXED, st.sampled_from(["en", "fr", "zh", "hy", "am", "xx"]), st.sampled_from(SPLITS))
def test_the_parts_make_the_text(text, language, split):
    whole = sentences_of(text, language, split)
    divided = fitting(whole, lambda sentence: len(sentence) <= 8)
    for parts in (whole, divided):
        assert "".join(parts) == text and len(parts) % 2 == 1
    for sentence in divided[1::2]:
        assert len(sentence) <= 8 or not any(map(str.isspace, sentence.strip()))


@pytest.mark.parametrize(
    "source, target, between",
    [
        ("zh", "en", ["", " ", "  ", "\n\n", ""]),
        ("eng_Latn", "jpn_Jpan", ["", "", "", "\n\n", ""]),
        ("en", "de", ["", "", "  ", "\n\n", ""]),
    ],
)
def test_spaces_are_those_of_the_target_language(source, target, between):
    assert copied(["", "A.", "", "B.", "  ", "C.", "\n\n", "D.", ""], source, target) == between


def test_marians_code_is_of_every_sentence():
    words = Dictionary()
    codec = TextCodec({}, {}, ("en", "fr"), words, words)
    codec.encode = str.split
    parts = parts_of(codec, ">>fra<< Save it. Open it.", 9, True)
    assert parts.rows == [[">>fra<<", "Save", "it."], [">>fra<<", "Open", "it."]]
    alone = parts_of(codec, ">>fra<< Save it.", 9, True)
    assert alone.sentences == [">>fra<< Save it."] and alone.copied == ["", ""]


def test_a_text_is_the_translations_of_its_sentences(translator):
    alone = translator.translate([LINES[0], LINES[1] + ".", LINES[2] + "!", LINES[3]])
    a, b, c, d = map(str, alone)
    before = translator.stats.sentences
    first, whole = translator.translate([LINES[0], TEXT], return_trace=True)
    assert translator.stats.sentences == before + 5
    assert whole.text == f"\n- {a}\r\n\n  1. {b} {c}  \n---\n2026\t\n{d}\n"
    assert [each.text for each in whole.sentences] == [a, b, c, d] and first.sentences == ()
    assert whole.tokens == sum((each.tokens for each in alone), [])
    assert whole.iterations == sum(each.iterations for each in alone) == len(whole.accepted)
    assert len(whole.drafted) == whole.iterations
    assert whole.unknown == sum(each.unknown for each in alone)
    assert whole.scores == pytest.approx(sum((each.scores for each in alone), ()), abs=1e-4)
    assert whole.score == pytest.approx(sum(whole.scores) / len(whole.scores), abs=1e-5)
    assert whole.trace is None and first.trace.source_text == LINES[0]
    assert [s.trace.source_text for s in whole.sentences][:2] == [LINES[0], LINES[1] + "."]
    assert {s.trace.id for s in whole.sentences} == {1}
    assert dict(translator.translate_as_completed(["", TEXT]))[1].text == whole.text
    assert "".join(translator.translate_stream(TEXT)) == whole.text
    pieces = list(translator.translate_stream(TEXT, return_trace=True))
    assert "".join(piece.text for piece in pieces) == whole.text
    assert sum(piece.iteration is not None for piece in pieces) == whole.iterations


def test_a_text_may_be_decoded_as_one(pair, translator):
    (row,) = translator.encode([TEXT])
    ((_, one),) = translator.translate_encoded([row])
    text = "".join(translator.translate_stream(TEXT, split=False))
    assert translator.translate(TEXT, split=False).text == text == one.text
    assert translator.translate(TEXT).text != text
    with SpeculativeTranslator.from_pretrained(pair, device="cpu", split=False) as other:
        assert other.translate(TEXT).text == text and other.translate(TEXT, split=True).sentences
    with pytest.raises(ValueError, match="^split 'no': choose True or False or"):
        translator.translate(TEXT, split="no")


def test_what_is_too_long_is_divided_or_fails_alone(translator):
    long = f"{'w1 ' * 40}w2, {'w3 ' * 40}"
    divided = translator.translate(long)
    assert len(divided.sentences) == 2
    assert divided.sentences[1].tokens == translator.translate("w3 " * 40).tokens
    texts = ["w1", long, "w2"]
    with pytest.raises(ValueError, match='text 1 has 82 tokens, .*reads 64; .*"skip", or too_l'):
        translator.translate_as_completed(texts, split=False)
    first, skipped, last = translator.translate(texts, split=False, on_error="skip")
    assert "text 1 has 82 tokens" in skipped.error and first.error is None
    assert skipped._replace(error=None) == Translation("", [], 0.0, 0, [], [], 0)
    assert [first.text, last.text] == [translator.translate(t).text for t in ("w1", "w2")]
    with pytest.raises(ValueError, match="^on_error 'none': choose raise or skip"):
        translator.translate(texts, on_error="none")


@pytest.mark.parametrize("arch, expected", [("bart_large", False), ("transformer", True)])
def test_what_reads_documents_is_not_split(pair, monkeypatch, arch, expected):
    monkeypatch.setattr("fairseq_specdec.hub.loading.architecture", lambda state: arch)
    assert SpeculativeTranslator.from_pretrained(pair, device="cpu").split is expected
