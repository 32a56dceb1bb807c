"""fairseq's own flags that would end in a traceback of one of its libraries."""

import re
import sys
from argparse import Namespace

import pytest
from in_process import run_here

SKIPPED = {"max_source_positions": 1, "skip_invalid_size_inputs_valid_test": True}
SAID = [
    ({"max_tokens": 4, "batch_size": None}, r"--max-tokens 4: sentence \d+ has \d+; pass --max"),
    ({"max_source_positions": 2}, r"sentence \d+: has .* skip such by --skip-invalid-size"),
    (SKIPPED, "--skip-invalid-size-inputs-valid-test: leaves out all sentences"),
    ({"bpe": "sentencepiece"}, "--sentencepiece-model: missing"),
    ({"bpe": "hf_byte_bpe"}, "--bpe-merges: missing"),
    ({"bpe": "sentencepiece", "sentencepiece_model": "gone"}, "--sentencepiece-model gone: no"),
    ({"bpe": "sentencepiece", "sentencepiece_model": "{text}"}, "is no sentencepiece model"),
    ({"model_overrides": "3"}, "--model-overrides 3: is no dictionary"),
    ({"model_overrides": "a b("}, "--model-overrides .*: is no dictionary"),
    ({"model_overrides": "{'decoder_layers': 1}"}, "its settings describe .*leave out --model-ov"),
    ({"lm_path": "gone", "path": "gone"}, "--lm-path: cannot be honoured"),
    ({"replace_unk": "gone", "path": "gone"}, "--replace-unk: cannot be honoured"),
]


@pytest.fixture
def generating(monkeypatch):
    spec = Namespace(name="fairseq_cli.generate")
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", spec)


@pytest.mark.parametrize("flags, said", SAID, ids=str)
def test_what_is_said(flags, said, attempt, generating, tmp_path):
    (tmp_path / "text").write_text("no model\n" * 9)
    made = {"{text}": tmp_path / "text"}
    message = attempt(**{name: made.get(value, value) for name, value in flags.items()})
    assert re.search(said, message), message


def test_moses_speaks_the_languages_of_the_data(toy):
    out, _ = run_here(
        "generate", toy.data, task="translation_specdec", path=toy.v, beam=1, tokenizer="moses"
    )
    assert "H-0" in out
