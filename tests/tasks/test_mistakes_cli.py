"""Mistakes end a command before anything is decoded, with the flag or file and the remedy.

Those of fairseq's own flags would end in a traceback of one of its libraries. The commonest are in
commands/test_mistakes.py.
"""

import random
import re
import sys
from argparse import Namespace

import pytest
import torch
from in_process import run_here

GAD = {"strategy": "gad", "block_size": 4}
SPS = {"strategy": "sps"}
DRAWN = {"sampling": True}
SENTENCEPIECE = {"bpe": "sentencepiece"}
SKIPPED = {"max_source_positions": 1, "skip_invalid_size_inputs_valid_test": True}
# Flags, of which VERIFIER, DRAFTER and TEXT are files; and what is said.
MISTAKES = [
    ({"strategy": "iad", "drafter_path": "d"}, "--drafter-path.*iad.*leave it out"),
    ({**GAD, "drafter_path": "DRAFTER", "block_size": 5}, "--block-size 5.*blocks of 4.*or less"),
    ({**GAD, "path": "DRAFTER", "drafter_path": "VERIFIER"}, "--path.*drafter.*swapped"),
    ({**GAD, "drafter_path": "VERIFIER"}, "--drafter-path.*no block drafter"),
    ({**GAD, "drafter_path": "TEXT"}, "--drafter-path.*text"),
    ({**SPS, "drafter_path": None}, "--strategy sps.*needs --drafter-path"),
    ({**SPS, "drafter_path": "/no/x.pt"}, "--drafter-path.*/no/x.pt"),
    ({**SPS, "drafter_path": "DRAFTER"}, "--drafter-path.*block drafter.*--strategy gad"),
    ({**SPS, "drafter_path": "VERIFIER", "path": "DRAFTER"}, "--path.*holds a drafter"),
    ({**SPS, "drafter_path": "VERIFIER", "drafter_dtype": "int4"}, "--drafter-dtype int4"),
    ({**SPS, "drafter_path": "VERIFIER", **DRAWN, "temperature": 0}, "--temperature"),
    ({**DRAWN, "strategy": "gad++", "drafter_path": "DRAFTER"}, "--sampling:"),
    (
        {**DRAWN, **GAD, "drafter_path": "DRAFTER", "draft_confidence": 0.5},
        "--draft-confidence.*--sampling",
    ),
    ({"constraints": "ordered"}, "^--constraints:"),
    ({"command": "interactive", "constraints": "ordered", "buffer_size": 16}, "^--constraints:"),
    ({"sampling_topk": 5}, "^--sampling-topk:"),
    ({"lm_path": "VERIFIER"}, "^--lm-path:"),
    ({"lm_path": "gone", "path": "gone"}, "--lm-path: cannot be honoured"),
    ({"replace_unk": "gone", "path": "gone"}, "--replace-unk: cannot be honoured"),
    ({"max_tokens": 4, "batch_size": None}, r"--max-tokens 4: sentence \d+ has \d+; pass --max"),
    ({"max_source_positions": 2}, r"sentence \d+: has .* skip such by --skip-invalid-size"),
    (SKIPPED, "--skip-invalid-size-inputs-valid-test: leaves out all sentences"),
    (SENTENCEPIECE, "--sentencepiece-model: missing"),
    ({**SENTENCEPIECE, "sentencepiece_model": "gone"}, "--sentencepiece-model gone: no"),
    ({**SENTENCEPIECE, "sentencepiece_model": "TEXT"}, "is no sentencepiece model"),
    ({"bpe": "hf_byte_bpe"}, "--bpe-merges: missing"),
    ({"model_overrides": "3"}, "--model-overrides 3: is no dictionary"),
    ({"model_overrides": "a b("}, "--model-overrides .*: is no dictionary"),
    ({"model_overrides": "{'decoder_layers': 1}"}, "its settings describe .*leave out --model-ov"),
]


@pytest.mark.parametrize("flags, said", MISTAKES, ids=str)
def test_a_mistake_is_named(attempt, toy, monkeypatch, tmp_path, flags, said):
    spec = Namespace(name="fairseq_cli.generate")
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", spec)
    (tmp_path / "text").write_text("no model\n" * 9)
    files = {"VERIFIER": toy.v, "DRAFTER": toy.d, "TEXT": tmp_path / "text"}
    message = attempt(**{name: files.get(value, value) for name, value in flags.items()})
    assert re.search(said, message, re.S), message


def test_a_drafter_with_other_symbols(attempt, toy, tmp_path):
    (tmp_path / "train.src-tgt.src.idx").write_bytes(b"")  # names the languages
    for language in ("src", "tgt"):
        lines = (toy.data / f"dict.{language}.txt").read_text(encoding="utf-8").splitlines(True)
        random.Random(1).shuffle(lines)
        (tmp_path / f"dict.{language}.txt").write_text("".join(lines), encoding="utf-8")
    state = torch.load(toy.d, weights_only=False)
    state["cfg"]["task"]["data"] = str(tmp_path)
    torch.save(state, str(tmp_path / "altered.pt"))
    message = attempt(drafter_path=str(tmp_path / "altered.pt"), **GAD)
    assert "--drafter-path" in message and str(tmp_path / "dict.src.txt") in message
    assert "dict.txt" in message


def test_what_is_no_mistake(toy):
    """--beam 1 needs no word; Moses takes the languages of the data."""
    flags = {"task": "translation_specdec", "path": toy.v, "batch_size": 16, "beam": 1}
    out, log = run_here("generate", toy.data, tokenizer="moses", **flags)
    assert "--beam" not in log and "H-0" in out
