"""No sentence is lost between the data set and the decoder."""

import inspect
import itertools

import numpy as np
import pytest
from fairseq.data import data_utils

from fairseq_specdec.compat import patch
from fairseq_specdec.compat.batching import keep_last_batch


def batches(n, **kwargs):
    indices = np.random.RandomState(n).permutation(n)
    vector = kwargs.pop("vector", True)
    lengths = np.arange(n, dtype=np.int64) % 7 + 1
    kwargs.setdefault("num_tokens_vec", lengths if vector else None)
    return indices, data_utils.batch_by_size(indices, lambda i: int(lengths[i]), **kwargs)


@pytest.mark.parametrize("limits", [{"max_sentences": 24}, {"max_tokens": 40}, {}])
@pytest.mark.parametrize("vector", [True, False])
def test_every_index_once_in_order(limits, vector):
    for n, multiple in itertools.product([*range(20), 95, 96, 97, 100], [1, 2, 8]):
        indices, made = batches(n, vector=vector, required_batch_size_multiple=multiple, **limits)
        flat = [int(i) for batch in made for i in batch]
        assert flat == indices.tolist()
        assert all(0 < len(batch) <= limits.get("max_sentences", n) for batch in made)


STOCK = inspect.unwrap(data_utils.batch_by_size)


def sound(indices, *args, **kwargs):
    """As in releases of fairseq up to 0.12.2."""
    made = list(STOCK(indices, *args, **kwargs))
    kept = sum(map(len, made))
    return [*made, indices[kept:]] if kept < len(indices) else made


def dropping(indices, *args, required_batch_size_multiple=1, **kwargs):
    """As in those after it."""
    multiple = required_batch_size_multiple
    made = sound(indices, *args, required_batch_size_multiple=multiple, **kwargs)
    return made[:-1] if len(made[-1]) % multiple else made


@pytest.mark.parametrize("release", [sound, dropping])
def test_no_release_drops_sentences(release, monkeypatch):
    monkeypatch.setattr(data_utils, "batch_by_size", release)
    monkeypatch.setattr(patch, "PATCHED", [])
    patch.wrap_once(data_utils, "batch_by_size", keep_last_batch)
    _, made = batches(11, required_batch_size_multiple=8)
    assert list(map(len, made)) == [8, 3]
