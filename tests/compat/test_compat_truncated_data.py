"""Binarised data that was cut off is named, in both of fairseq's formats."""

import re
import subprocess

import pytest
import torch
from fairseq.data import Dictionary, data_utils, indexed_dataset

from fairseq_specdec.compat import truncated_data
from fairseq_specdec.compat.user_dir import PACKAGE

SENTENCES = [[5, 6, 7, 2], [8, 2], [9, 10, 2]]


@pytest.fixture(params=["mmap", "cached", "lazy"])
def written(request, tmp_path):
    """(path without its end, --dataset-impl) of data as fairseq-preprocess writes it."""
    stem = tmp_path / "train.src-tgt.src"
    builder = indexed_dataset.make_builder(f"{stem}.bin", impl=request.param, vocab_size=40)
    for sentence in SENTENCES:
        builder.add_item(torch.tensor(sentence, dtype=torch.int))
    builder.finalize(f"{stem}.idx")
    return stem, request.param


def load(stem, impl=None):
    return data_utils.load_indexed_dataset(str(stem), None, impl)


def cut(stem, end, size):
    path = stem.parent / (stem.name + end)
    path.write_bytes(path.read_bytes()[:size])
    return path


def test_whole_data_is_read(written):
    stem, impl = written
    for asked in (impl, None):
        data = load(stem, asked)
        if data.supports_prefetch:
            data.prefetch(range(3))
        assert [data[i].tolist() for i in range(3)] == SENTENCES


def test_every_shorter_file_is_named_with_the_remedy(written):
    stem, impl = written
    whole = {}
    for end in (".idx", ".bin"):
        path = stem.parent / (stem.name + end)
        whole[end] = path.read_bytes()
    for end, content in whole.items():
        for size in range(len(content)):
            path = cut(stem, end, size)
            with pytest.raises(OSError) as caught:
                load(stem)
            message = str(caught.value)
            assert message.startswith(f"{path}: ") and "fairseq-preprocess" in message, (
                size,
                message,
            )
            path.write_bytes(content)
    assert len(load(stem)) == 3


def test_the_reader_is_replaced_once_and_asked_as_before(written, monkeypatch):
    stem, impl = written
    asked = []
    monkeypatch.setattr(
        indexed_dataset, "make_dataset", lambda *of, **named: asked.append((of, named))
    )
    truncated_data.name_truncated_data()
    reader = indexed_dataset.make_dataset
    truncated_data.name_truncated_data()
    assert indexed_dataset.make_dataset is reader
    reader(str(stem), impl, True, dictionary=None)
    assert asked == [((str(stem), impl, True), {"dictionary": None})]
    cut(stem, ".bin", 1)
    with pytest.raises(OSError, match="was cut off"):
        reader(str(stem), impl)


def test_the_message_names_how_much_is_missing(written):
    stem, _ = written
    size = (stem.parent / (stem.name + ".bin")).stat().st_size
    path = cut(stem, ".bin", size - 1)
    with pytest.raises(OSError, match=re.escape(f"{path}: was cut off ({size - 1} of {size} by")):
        load(stem)


def test_an_unknown_number_format(written):
    stem, impl = written
    if impl != "mmap":
        pytest.skip("the width stands in the index itself")
    path = stem.parent / (stem.name + ".idx")
    content = bytearray(path.read_bytes())
    content[17] = 99
    path.write_bytes(content)
    with pytest.raises(OSError, match="its first bytes are damaged"):
        load(stem)


def patched(stem, end, place, content):
    path = stem.parent / (stem.name + end)
    whole = bytearray(path.read_bytes())
    whole[place : place + len(content)] = content
    path.write_bytes(whole)
    return path


# Of each format: where in the index the version, the first size and the second place stand.
PLACES = {"mmap": (9, 26, 46), "cached": (8, 112, 88), "lazy": (8, 112, 88)}


@pytest.mark.parametrize(
    "which, number, message",
    [
        (0, 2, "is of version 2, and fairseq reads version 1"),
        (1, -1, "sentence 0 has -1 tokens"),
        (1, 3, "its sizes do not fit its places from sentence 1 on"),
        (2, 1, "its sizes do not fit its places from sentence 1 on"),
    ],
)
def test_an_index_that_contradicts_itself(written, which, number, message):
    stem, impl = written
    width = 4 if impl == "mmap" and which == 1 else 8
    content = number.to_bytes(width, "little", signed=True)
    path = patched(stem, ".idx", PLACES[impl][which], content)
    with pytest.raises(OSError, match=re.escape(f"{path}: {message}; copy it again")):
        load(stem)


def test_an_index_with_bytes_after_its_end(written):
    stem, _ = written
    path = stem.parent / (stem.name + ".idx")
    path.write_bytes(path.read_bytes() + b"1")
    with pytest.raises(OSError, match="bytes, and its sentences take"):
        load(stem)


def test_tokens_outside_the_dictionary(written):
    stem, _ = written
    words = Dictionary()
    for word in range(7):
        words.add_symbol(str(word))
    with truncated_data.tokens_checked():
        assert len(words) == 11 and len(data_utils.load_indexed_dataset(str(stem), words)) == 3
    words = Dictionary()
    for word in range(5):
        words.add_symbol(str(word))
    message = f"{stem}.bin: sentence 2 has token 9; the dictionary has 9 symbols; binarise"
    assert len(data_utils.load_indexed_dataset(str(stem), words)) == 3  # stock, as ever
    with truncated_data.tokens_checked(), pytest.raises(OSError, match=re.escape(message)):
        data_utils.load_indexed_dataset(str(stem), words)


def test_an_empty_sentence(tmp_path):
    stem = tmp_path / "test.src-tgt.src"
    builder = indexed_dataset.make_builder(f"{stem}.bin", impl="mmap", vocab_size=40)
    for sentence in ([2], [], [2]):
        builder.add_item(torch.tensor(sentence, dtype=torch.int))
    builder.finalize(f"{stem}.idx")
    assert len(load(stem)) == 3  # not every data is text
    message = r"src\.idx: sentence 1 is empty, it lacks even </s>"
    with truncated_data.tokens_checked(), pytest.raises(OSError, match=message):
        data_utils.load_indexed_dataset(str(stem), Dictionary())


def test_a_split_without_sentences(tmp_path):
    stem = tmp_path / "valid.src-tgt.src"
    indexed_dataset.make_builder(f"{stem}.bin", impl="mmap", vocab_size=9).finalize(f"{stem}.idx")
    with pytest.raises(OSError, match=r"valid\.src-tgt\.src\.bin: holds no sentence"):
        load(stem)


def test_a_single_sentence_is_data(tmp_path):
    stem = tmp_path / "valid.src-tgt.src"
    builder = indexed_dataset.make_builder(f"{stem}.bin", impl="mmap", vocab_size=40)
    builder.add_item(torch.tensor([5, 2], dtype=torch.int))
    builder.finalize(f"{stem}.idx")
    assert load(stem)[0].tolist() == [5, 2]
    cut(stem, ".bin", 1)
    with pytest.raises(OSError, match="was cut off"):
        load(stem)


def test_missing_data_and_raw_text_go_to_fairseq(tmp_path):
    assert load(tmp_path / "train.src-tgt.src") is None
    (tmp_path / "x.idx").write_bytes(truncated_data.MMAP)
    assert load(tmp_path / "x") is None


@pytest.mark.parametrize(
    "module, flags",
    [
        ("fairseq_cli.generate", ["--user-dir", PACKAGE, "--task", "translation_specdec"]),
        ("fairseq_specdec.data.distill", ["--dest", "out"]),
        ("fairseq_specdec.bench.cli", []),
    ],
)
@pytest.mark.parametrize("end", [".idx", ".bin"])
def test_commands_name_the_file(module, flags, end, trained, reversal_data, tmp_path, warm_python):
    data = tmp_path / "data"
    data.mkdir()
    for path in reversal_data.iterdir():
        content = path.read_bytes()
        half = path.name == "test.src-tgt.tgt" + end
        (data / path.name).write_bytes(content[: len(content) // 2] if half else content)
    words = [str(data), "--path", str(trained.checkpoint), "--cpu", "--gen-subset", "test", *flags]
    done = subprocess.run(
        [str(warm_python.python), "-m", module, *words],
        cwd=str(tmp_path),
        capture_output=True,
        text=True,
    )
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1 and f"{data}/test.src-tgt.tgt{end}: was cut off (" in last, last
    if not module.startswith("fairseq_cli"):
        assert "Traceback" not in done.stderr
