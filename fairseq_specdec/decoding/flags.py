"""The decoding flags that every strategy has; each strategy's file defines its own."""

from dataclasses import dataclass
from typing import Optional

from fairseq_specdec.engine.backend import BACKENDS, THREADS
from fairseq_specdec.engine.devices import PACKED
from fairseq_specdec.io.flag_values import AT_LEAST_1, flag


@dataclass
class CommonFlags:
    """Flags of all strategies."""

    drafter_path: Optional[str] = flag(
        None,
        "checkpoint of the drafter (gad, gad++, specdec, nar) or of the small model (sps, bild); "
        "required by these",
    )
    block_size: Optional[int] = flag(
        None,
        "k, tokens drafted per iteration, at most what the drafter was trained for",
        AT_LEAST_1,
        otherwise="what the drafter was trained for; for iad the whole rest of the source; for "
        "lookup 32; for sps, where it is gamma, 4; for bild 10",
    )
    backend: str = flag(
        "auto",
        "what runs the models: torch (any device), native (C++, on a CPU, where fairseq_specdec "
        "was built with a compiler) or auto (native where it can)",
        BACKENDS,
    )
    verifier_dtype: str = flag(
        "fp32",
        "number format of the verifier's weights on the native backend: fp32, or bf16, int8 or "
        "int7 (in batches faster than int8 with AVX2), with which the output may differ from "
        "fairseq's; strategies that are exact equal --strategy greedy in the same format",
        PACKED,
    )
    cuda_graphs: str = flag(
        "auto",
        "replay passes as CUDA graphs: on (on a GPU; fewer kernel launches, more memory), off, or "
        "auto (up to 32 rows)",
        ("auto", "on", "off"),
    )
    threads: Optional[int] = flag(
        None,
        "CPU threads that share a large product, of this whole process; the output does not depend "
        "on it on the native backend",
        THREADS,
        otherwise="OMP_NUM_THREADS; without it 1 on the native backend, all cores in torch",
    )
    keep_weights: bool = flag(
        False,
        "keep the models' own weights beside those that are packed for decoding, which takes more "
        "memory, so that the models can be saved, copied or moved after it",
    )
    trace_path: Optional[str] = flag(
        None,
        "write what every iteration drafted, what became of each draft token and how long it took "
        "to this file, JSON lines, one sentence each, once all of them are decoded; read it with "
        "specdec-trace",
    )
