"""The demo pair under load: memory that stays.

``SPECDEC_LOAD_SENTENCES`` sets how many sentences are decoded (12,000 take some four
minutes on a fast core, 100,000 half an hour), ``SPECDEC_LOAD_MINUTES`` after how many minutes it
may end with fewer.
"""

import os
import random
import sys
import time

import pytest
from resident import resident

from fairseq_specdec.hub import SpeculativeTranslator

SENTENCES = int(os.environ.get("SPECDEC_LOAD_SENTENCES", 12_000))
MINUTES = float(os.environ.get("SPECDEC_LOAD_MINUTES", "inf"))
CHUNK = 480
# Growth of resident memory after the first tenth, in MiB (benchmarks/design-log.md).
GROWTH = 96


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_stays(demo):
    """Every chunk holds other sentences in another order: new batches, new shapes."""
    texts = (demo / "heldout.en").read_text(encoding="utf-8").splitlines()
    load = SpeculativeTranslator.from_pretrained
    translate = load(demo, strategy="gad", device="cpu", batch_size=32).translate
    chosen, end = random.Random(1), time.monotonic() + 60 * MINUTES
    done, after = 0, []
    while done < SENTENCES and time.monotonic() < end:
        batch = chosen.choices(texts, k=min(CHUNK, SENTENCES - done))
        assert len(translate(batch)) == len(batch)
        done += len(batch)
        after.append(resident())
    assert max(after) - after[max(0, len(after) // 10)] < GROWTH
