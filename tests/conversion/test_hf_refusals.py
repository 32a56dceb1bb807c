"""What ``specdec-convert hf`` does not know, or must not read, is refused by name."""

import json
import os
import re
import shutil

import pytest
import torch
from hf_folders import STORED
from hostile_pickles import runs, zipped

from fairseq_specdec.conversion.hf.convert import convert, load


@pytest.fixture
def folder(tmp_path):
    """A copy of the BART of tests/fixtures, whose weights are pickled, to be damaged."""
    copy = tmp_path / "model"
    shutil.copytree(STORED / "bart", copy)
    return copy


def changed(folder, name, **values):
    path = folder / name
    there = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**there, **values}), encoding="utf-8")


def line_of(folder):
    """The one line that refuses the folder; nothing is written."""
    out = folder.parent / "out"
    with pytest.raises(ValueError) as refused:
        convert(str(folder), str(out), None, None, False)
    assert not out.exists() and "\n" not in str(refused.value)
    return str(refused.value)


CONFIG = [
    ({"model_type": "t5"}, r"model_type is 't5'; there are loaders for bart, m2m"),
    ({"auto_map": {"AutoModel": "code.Model"}}, "auto_map is .*, which the loader of bart"),
    ({"relative_attention": True}, "relative_attention is True, which the loader of bart does not"),
    ({"quantization_config": {"bits": 4}}, "quantization_config is {'bits': 4}, which the loader"),
    ({"decoder_attention_heads": 5}, "config.json: embed_dim must be divisible by num_heads"),
    ({"encoder_ffn_dim": 8}, r"fc1.weight has shape .*, config.json says \[8, 24\]"),
    ({"activation_function": "mish"}, "activation_function is 'mish'; fairseq has relu, gelu"),
    ({"d_model": 32}, r"has shape \[\d+, 24\], config.json says \[\d+, 32\]"),
    ({"d_model": "24"}, "d_model is '24', no int"),
    ({"encoder_layers": 2}, "lacks the weight model.encoder.layers.1.*, which config"),
    ({"encoder_layers": 10**9}, "encoder_layers is 1000000000; it must be from 1 to 1000"),
    ({"decoder_layers": None}, "lacks decoder_layers, which the loader of bart needs"),
]  # fmt: skip
GENERATION = [
    ({"repetition_penalty": 1.2}, "repetition_penalty is 1.2; decoding here has no such rule"),
    ({"encoder_no_repeat_ngram_size": 3}, "encoder_no_repeat_ngram_size is 3"),
    ({"forced_eos_token_id": 7}, "forced_eos_token_id is 7; only eos_token_id can be forced"),
    ({"bad_words_ids": [[8]]}, r"bad_words_ids is \[\[8\]\]; only pad_token_id can be suppressed"),
    ({"suppress_tokens": [5]}, r"suppress_tokens is \[5\], which fairseq does not know"),
    ({"eos_token_id": [2, 3]}, r"eos_token_id is \[2, 3\], no int"),
    ({"max_length": 2}, "max_length 2 leaves no room for a token"),
    ({"a_new_rule": 3}, "a_new_rule is 3, which fairseq does not know"),
    ({"max_length": "40"}, "max_length is '40', no int"),
]
FILES = [("config.json", *each) for each in CONFIG]
FILES += [("generation_config.json", *each) for each in GENERATION]


@pytest.mark.parametrize("name, values, words", FILES)
def test_settings(folder, name, values, words):
    changed(folder, name, **values)
    line = line_of(folder)
    assert re.search(words, line), line
    assert str(folder) in line


def test_sources_that_end_with_their_language(tmp_path):
    """NLLB's former order is none that it was trained with."""
    pytest.importorskip("sentencepiece")
    folder = shutil.copytree(STORED / "nllb", tmp_path / "in")
    changed(folder, "tokenizer_config.json", legacy_behaviour=True)
    assert "tokenizer_config.json: legacy_behaviour is true" in line_of(folder)


def test_settings_that_change_nothing_are_read_over(folder):
    before = load(str(folder))
    changed(folder, "config.json", dropout=0.3, id2label={"0": "a"}, an_unknown_switch=False)
    changed(folder, "generation_config.json", temperature=0.7, top_k=5, early_stopping=True)
    after = load(str(folder))
    assert after.model == before.model and after.generation == before.generation


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt", "config.json", "pytorch_model.bin"])
def test_missing_files(folder, name):
    (folder / name).unlink()
    line = line_of(folder)
    assert str(folder) in line and ("no weights in it" in line or name in line)


def test_the_folders_code_is_not_run(folder):
    (folder / "modeling_mine.py").write_text(f"open({str(folder / 'ran')!r}, 'w')")
    evil = zipped(runs(str(folder / "made"))["REDUCE"])
    (folder / "pytorch_model.bin").write_bytes(evil)
    said = r"pytorch_model.bin: cannot be read .*names posix.mkdir.*was not run"
    assert re.search(said, line_of(folder))
    assert not (folder / "made").exists() and not (folder / "ran").exists()


@pytest.mark.parametrize("place", ["../weights.bin", "/tmp/weights.bin", "sub/w.bin", "", ".."])
def test_paths_that_leave_the_folder(folder, place):
    (folder / "pytorch_model.bin").rename(folder.parent / "weights.bin")
    changed(folder, "pytorch_model.bin.index.json", weight_map={"a": place})
    assert f"names the file {place!r}, outside of the folder" in line_of(folder)


@pytest.mark.parametrize("name", ["vocab.json", "pytorch_model.bin", "config.json"])
def test_links_that_leave_the_folder(folder, name):
    elsewhere = (folder / name).rename(folder.parent / "elsewhere")
    (folder / name).symlink_to(elsewhere)
    assert f"{name}: is a link to {elsewhere}, outside of the folder" in line_of(folder)


def test_a_snapshot_of_the_cache_links_beside_itself(folder):
    cache = folder.parent / "models--a--b"
    (cache / "snapshots").mkdir(parents=True)
    (cache / "blobs").mkdir()
    for path in list(folder.iterdir()):
        blob = cache / "blobs" / path.name[::-1]
        path.rename(blob)
        path.symlink_to(os.path.join("..", "..", "blobs", blob.name))
    snapshot = cache / "snapshots" / "0123abcd"
    folder.rename(snapshot)
    assert load(str(snapshot)).arch == "transformer"
    (folder.parent / "secret").write_text("{}")
    (snapshot / "generation_config.json").unlink()
    (snapshot / "generation_config.json").symlink_to(folder.parent / "secret")
    with pytest.raises(ValueError, match="outside of the folder"):
        load(str(snapshot))


def header(**tensors):
    content = json.dumps(tensors).encode()
    return len(content).to_bytes(8, "little") + content


HOSTILE = {
    "a header of 8 EB": (1 << 63).to_bytes(8, "little"),
    "a tensor of 4 TB": header(
        a={"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}
    ),
    "another size": header(a={"dtype": "F32", "shape": [3], "data_offsets": [0, 4]}) + bytes(4),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_safetensors_that_lie(folder, case):
    pytest.importorskip("safetensors")
    (folder / "model.safetensors").write_bytes(HOSTILE[case])
    assert "model.safetensors: is damaged (" in line_of(folder)


@pytest.mark.parametrize(
    "name, change, message",
    [
        ("decoder.adapter.weight", lambda _: torch.zeros(2), "which no part of this family reads"),
        (
            "decoder.output_projection.weight", lambda state: state["model.shared.weight"] + 1,
            "which no part of this family reads",
        ),
        (
            "encoder.layers.0.fc1.bias", lambda _: torch.zeros(48, dtype=torch.int8),
            "fc1.bias is of torch.int8; convert the model before it was quantized",
        ),
        (
            "decoder.embed_tokens.weight", lambda state: state["model.shared.weight"] + 1,
            "decoder.embed_tokens.weight differs from model.shared.weight",
        ),
        (None, lambda _: [1], "holds something else than weights by their names"),
    ],
)  # fmt: skip
def test_weights_of_another_kind(folder, name, change, message):
    state = torch.load(folder / "pytorch_model.bin")
    made = change(state) if name is None else {**state, f"model.{name}": change(state)}
    torch.save(made, folder / "pytorch_model.bin")
    line = line_of(folder)
    assert message in line and (name or "") in line
