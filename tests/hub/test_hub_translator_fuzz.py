"""Odd text and damaged files: what stock decodes is decoded alike, what is broken is named."""

import shutil
from argparse import Namespace

import pytest
import torch
from odd_lines import LINES
from toy_translation import make_task

from fairseq_specdec.hub import SpeculativeTranslator


def stock(translator, text):
    """What fairseq says at beam 1 to the same tokens, as words; [] for no tokens."""
    ids = translator.codec.encode(text)
    if not ids:
        return []
    task, models = make_task(), translator.generator.models
    source = torch.tensor([ids])
    net_input = {"src_tokens": source, "src_lengths": torch.tensor([len(ids)])}
    sample = {"id": torch.tensor([0]), "nsentences": 1, "target": None, "net_input": net_input}

    generator = task.build_generator(models, Namespace(beam=1, max_len_b=200, min_len=1))
    ((best, *_),) = task.inference_step(generator, models, sample)
    return translator.codec.words(best["tokens"].tolist())


@pytest.mark.parametrize("system", ["greedy", "iad", "gad"])
def test_odd_lines_equal_stock(pair, system):
    translator = SpeculativeTranslator.from_pretrained(
        pair, strategy=system, device="cpu", batch_size=5, split=False
    )
    results = translator.translate(list(LINES.values()))
    for name, result in zip(LINES, results):
        assert result.tokens == stock(translator, LINES[name]), name
    assert results[0].text == results[1].text == ""


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
