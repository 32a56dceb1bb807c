"""Binarised data that was cut off, damaged or made with other words is named, in both formats."""

import re

import pytest
import torch
from fairseq.data import data_utils, indexed_dataset
from toy_translation import dictionary

from fairseq_specdec.compat.data_files import tokens_checked
from fairseq_specdec.errors import UsageError

SENTENCES = [[5, 6, 7, 2], [8, 2], [9, 10, 2]]


def write(stem, impl, sentences):
    builder = indexed_dataset.make_builder(f"{stem}.bin", impl=impl, vocab_size=40)
    for sentence in sentences:
        builder.add_item(torch.tensor(sentence, dtype=torch.int))
    builder.finalize(f"{stem}.idx")
    return stem


@pytest.fixture(params=["mmap", "cached", "lazy"])
def written(request, tmp_path):
    """(path without its end, --dataset-impl) of data as fairseq-preprocess writes it."""
    return write(tmp_path / "train.src-tgt.src", request.param, SENTENCES), request.param


def load(stem, words=None):
    with tokens_checked():
        return data_utils.load_indexed_dataset(str(stem), words, None)


def test_whole_data_is_read_and_every_shorter_file_is_named(written):
    stem, impl = written
    data = load(stem, dictionary(7))
    if data.supports_prefetch:
        data.prefetch(range(3))
    assert [data[i].tolist() for i in range(3)] == SENTENCES
    index, content = (stem.parent / (stem.name + end) for end in (".idx", ".bin"))
    for path in (index, content):
        whole = path.read_bytes()
        for size in range(len(whole)):
            path.write_bytes(whole[:size])
            with pytest.raises(UsageError, match="was cut off|bytes, the .idx says") as caught:
                load(stem)
            assert str(caught.value).startswith((f"{path}: ", f"{content}: "))
        path.write_bytes(whole)
    with pytest.raises(UsageError, match=re.escape(f"{content}: holds token 10, the dictionary")):
        load(stem, dictionary(6))


def test_empty_splits(tmp_path):
    with pytest.raises(UsageError, match=r"src\.bin: was cut off, is damaged or has no"):
        load(write(tmp_path / "valid.src-tgt.src", "mmap", []))
    assert load(tmp_path / "gone.src-tgt.src") is None
