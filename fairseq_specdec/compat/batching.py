"""Sentences that fairseq loses when it makes batches."""

from typing import Any

import numpy as np

from .patch import fixes


@fixes("fairseq.data.data_utils.batch_by_size")
def keep_last_batch(original: Any, indices: Any, *args: Any, **kwargs: Any) -> Any:
    """Keep the last batch whatever its size: 100 sentences in, 100 out.

    Fault: ``data_utils.batch_by_size`` drops the last batch when its size is no multiple of
    ``--required-batch-size-multiple`` (8 by default), so fairseq-generate translates 96 of 100
    sentences, exits 0 and scores 96; on no sentences at all it raises IndexError. Versions:
    upstream main since 2022, ve-fairseq 0.12.3, fairseq-fixed 0.12.3.1; releases up to 0.12.2 are
    sound. Upstream issues 5036, 5094, 5351.
    """
    if not isinstance(indices, np.ndarray):
        indices = np.fromiter(indices, dtype=np.int64)
    if len(indices) == 0:
        return []
    batches = original(indices, *args, **kwargs)
    # Batches are runs of `indices` in order, so what follows the kept ones is the dropped one. With
    # fixed_shapes none is dropped.
    kept = sum(len(batch) for batch in batches)
    return [*batches, indices[kept:]] if kept < len(indices) else batches
