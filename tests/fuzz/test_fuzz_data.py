"""Damaged ``.bin``, ``.idx`` and ``dict.*.txt`` are decoded, or end in an error: of ours, or
fairseq's own, which names no file. None ends the process or hangs."""

from argparse import Namespace

import pytest
import torch
from damage import damaged
from fairseq import checkpoint_utils
from fairseq.data import indexed_dataset
from toy_pair import write_pair
from toy_translation import sentences, translate

from fairseq_specdec.config import TranslationSpecDecConfig
from fairseq_specdec.tasks.translation_specdec import TranslationSpecDecTask

FIRST = 4  # the first word of a dictionary


@pytest.fixture(scope="module", params=["mmap", "cached", "lazy"])
def corpus(request, tmp_path_factory):
    """(the folder, its files' contents, --dataset-impl) of ten sentences."""
    folder = write_pair(tmp_path_factory.mktemp(request.param))
    for side in ("src", "tgt"):
        stem = str(folder / f"test.src-tgt.{side}")
        builder = indexed_dataset.make_builder(f"{stem}.bin", request.param, vocab_size=40)
        for words in sentences(10, seed=3):
            words = words if side == "src" else translate(words)
            builder.add_item(torch.tensor([FIRST + word for word in words] + [2]).int())
        builder.finalize(f"{stem}.idx")
    names = [path.name for path in folder.iterdir() if path.suffix in (".bin", ".idx")]
    names += [f"dict.{side}.txt" for side in ("src", "tgt")]
    return folder, {name: (folder / name).read_bytes() for name in sorted(names)}, request.param


def decoded(folder, impl, model):
    """Every sentence of the folder, through the task."""
    cfg = TranslationSpecDecConfig(
        data=str(folder), source_lang="src", target_lang="tgt", dataset_impl=impl,
        required_seq_len_multiple=1,
    )  # fmt: skip
    task = TranslationSpecDecTask.setup_task(cfg)
    task.load_dataset("test")
    data = task.dataset("test")
    models, _ = checkpoint_utils.load_model_ensemble([str(model)], task=task)
    generator = task.build_generator(models, Namespace(beam=1))
    batches = task.get_batch_iterator(data, max_sentences=4, max_positions=(64, 64))
    done = 0
    for sample in batches.next_epoch_itr(shuffle=False):
        done += len(task.inference_step(generator, models, sample))
    return done


def test_data(corpus, fuzz, tmp_path):
    folder, contents, impl = corpus
    model = folder / "verifier.pt"
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    assert decoded(tmp_path, impl, model) == 10
    for seed in fuzz.seeds():
        random = fuzz.random(seed)
        name = random.choice(sorted(contents))
        (tmp_path / name).write_bytes(damaged(random, contents[name]))
        try:
            decoded(tmp_path, impl, model)
            fuzz.counts["decoded"] += 1
        except (ValueError, OSError, RuntimeError, AssertionError, IndexError, KeyError):
            fuzz.counts["refused"] += 1
        (tmp_path / name).write_bytes(contents[name])
