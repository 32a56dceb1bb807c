"""Odd text and damaged files: what stock decodes is decoded alike, what is broken is named."""

import shutil

import pytest
import torch
from toy_strategies import flags, stock

from fairseq_specdec.hub import SpeculativeTranslator

# What a user may well have in a file, and a hostile one surely has.
LINES = {
    "nothing": "",
    "blanks": " \t\u2003\u3000",
    "one token": "w1",
    "unknown only": "<unk> <unk> <unk>",
    "never seen": "not a word of it",
    "an end inside": "w1 </s> w2 w3",
    "an end alone": "</s>",
    "a start": "<s> w1 <s>",
    "padding inside": "<pad> w1 <pad> w2 <pad>",
    "padding alone": "<pad>",
    "all special": "<s> <pad> </s> <unk> w5",
    "control characters": "w1\x00 w2\x07 \x1b[31m w3 \x7f\x85w4",
    "line ends": "w1\r\nw2\vw3\fw4\u2028w5\u2029w6",
    "right to left": "\u202ew3 שלום\u202c مرحبا w4",
    "Chinese, Japanese, Korean": "你好 世界。 こんにちは 안녕 w6",
    "a mark, joiners, emoji": "\ufeffw1 \u200bw2 👩\u200d👩\u200d👧 e\u0301",
    "half a pair": "w1 \ud83d w2",
    "one long word": "x" * 10_000,
    "long": "w1 w2 w3 " * 20,
}


@pytest.mark.parametrize("system", ["greedy", "iad", "gad"])
def test_odd_lines_equal_stock(pair, system):
    translator = SpeculativeTranslator.from_pretrained(
        pair, strategy=system, device="cpu", batch_size=5, split=False
    )
    results = dict(zip(LINES, translator.translate(list(LINES.values()))))
    for name, result in results.items():
        ids = translator.codec.encode(LINES[name])
        net_input = {"src_tokens": torch.tensor([ids]), "src_lengths": torch.tensor([len(ids)])}
        sample = {"nsentences": 1, "net_input": net_input}
        said = stock(translator.generator.models, sample, flags()) if ids else []
        words = [translator.codec.words(one["tokens"].tolist()) for one in said]
        assert [result.tokens] == (words or [[]]), name
    assert results["nothing"].text == results["blanks"].text == ""


DICTIONARIES = {
    "cut within a line": lambda text: text[: len(text) - 1 - len(text) // 3].rstrip("0123456789 "),
    "lines lost": lambda text: "".join(text.splitlines(True)[:-3]),
    "a line twice": lambda text: text + text.splitlines(True)[0],
    "empty": lambda text: "",
    "another language's": lambda text: "".join(f"v{i} 1\n" for i in range(31)),
    "not UTF-8": lambda text: text.encode().replace(b"w3 ", b"\xff\xfe "),
}


@pytest.mark.parametrize("how", DICTIONARIES)
def test_damaged_dictionaries_are_named(pair, tmp_path, how):
    copied = shutil.copytree(pair, tmp_path / "pair")
    for side in ("src", "tgt"):
        path = copied / f"dict.{side}.txt"
        changed = DICTIONARIES[how](path.read_text(encoding="utf-8"))
        path.write_bytes(changed if isinstance(changed, bytes) else changed.encode("utf-8"))
    with pytest.raises(ValueError, match="dict"):
        SpeculativeTranslator.from_pretrained(copied, device="cpu").translate("w1")
