"""Texts that outputs are expected to be like: they change the time, and nothing else."""

import pytest
import torch
from toy_pair import text_of
from toy_strategies import bits, make_generator
from toy_translation import PAD, make_sample, sentences

from fairseq_specdec.engine.native import library
from fairseq_specdec.errors import UsageError
from fairseq_specdec.hub import SpeculativeTranslator
from fairseq_specdec.hub.cli import cli_main

TEXTS = [text_of(line) for line in sentences(12, seed=9)]


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_any_draft_gives_the_same_output(backend):
    if backend == "native" and library.load() is None:
        pytest.skip(library.why_not())
    sample = make_sample(sentences(6, seed=3))

    def run(strategy, drafts=None):
        generator = make_generator(strategy, backend=backend)
        ranked = generator.generate(generator.models, {**sample, "draft_tokens": drafts})
        return bits(best for (best,) in ranked), generator.stats

    plain, _ = run("greedy")
    right = torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(tokens) for tokens, _ in plain], batch_first=True, padding_value=PAD
    )
    revised, some = right.clone(), right.clone()
    revised[:, 2] = right[:, 0]
    some[::2] = PAD  # no text at all
    for name, drafts, most in (
        ("right", right, 6), ("wrong", right.flip(0), 60), ("revised", revised, 30),
        ("some", some, 60), ("none", None, 60),
    ):  # fmt: skip
        found, stats = run("given", drafts)
        assert [tokens for tokens, _ in found] == [tokens for tokens, _ in plain]
        assert backend == "torch" or found == plain
        assert stats.iterations <= most, name
        assert (stats.drafted > 0) == (drafts is not None)
    assert run("greedy", right)[1].drafted == 0


def test_a_translator_drafts_what_is_given(pair):
    translator = SpeculativeTranslator.from_pretrained(pair, device="cpu", strategy="greedy")
    plain = translator.translate(TEXTS)
    texts = list(map(str, plain))
    for drafts in (texts, plain):
        again = translator.translate(TEXTS, draft=[*drafts[:-1], None], draft_budget=0)
        assert list(map(str, again)) == texts
        assert all(each.iterations == 1 for each in again[:-1]) and sum(again[-1].drafted) == 0
    # Of a text of several sentences, those of the draft; or all of it for each.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fairseq_specdec.hub.batching.sentences_of", halves)
        both, draft = " ".join(TEXTS[:2]), " ".join(texts[:2])
        expected = translator.translate(both)
        assert len(expected.sentences) == 2
        for given, fewest in ((draft, 2), (texts[1], 3), (expected, 2), (plain[1], 3)):
            found = translator.translate(both, draft=given, draft_budget=0)
            assert found.text == expected.text and found.iterations >= fewest
        streamed = translator.translate_stream(both, draft=draft, draft_budget=0)
        assert "".join(streamed) == expected.text
    with pytest.raises(UsageError, match="draft: 1 for 12 texts"):
        translator.translate(TEXTS, draft=texts[0])
    with pytest.raises(UsageError, match="draft: strategy greedy does not read it"):
        translator.translate(TEXTS[0], draft=texts[0], strategy="greedy")


def halves(text, language, split):
    """Before each sentence, and the sentence."""
    words = text.split()
    middle = len(words) // 2
    return ["", " ".join(words[:middle]), " ", " ".join(words[middle:]), ""]


def test_the_command_reads_drafts_line_by_line(pair, tmp_path, capsys):
    (tmp_path / "in").write_text("".join(f"{text}\n" for text in TEXTS))
    (tmp_path / "few").write_text("w1\n")

    def run(*more):
        words = [pair, tmp_path / "in", "--device", "cpu", "--lines", 5, *more]
        with pytest.raises(SystemExit) as ended:
            cli_main(list(map(str, words)))
        return ended.value.code, capsys.readouterr().out

    status, plain = run()
    (tmp_path / "drafts").write_text(plain)
    assert status == 0 and run("--drafts", tmp_path / "drafts") == (0, plain)
    status, printed = run("--drafts", tmp_path / "few")
    assert "--drafts: has fewer lines than the input" in status and printed == ""
    assert "--drafts: no such file" in run("--drafts", tmp_path / "none")[0]
