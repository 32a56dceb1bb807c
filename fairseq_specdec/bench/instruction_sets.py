"""``--isa``: every system held to one set of instructions. Standard library only: it runs first."""

import os
from collections.abc import Sequence

# Each library reads its own variable, once, as it is loaded.
VARIABLES: dict[str, dict[str, str]] = {
    "avx2": {
        "FAIRSEQ_SPECDEC_NATIVE": "x86_64_v3",
        "ATEN_CPU_CAPABILITY": "avx2",  # torch's own kernels
        "ONEDNN_MAX_CPU_ISA": "AVX2",  # products of torch and CTranslate2
        "DNNL_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "CT2_FORCE_CPU_ISA": "AVX2",
        "INTGEMM_CPUID": "AVX2",  # products of bytes in Bergamot
    }
}
# Engines that choose by themselves: measured with whatever the processor has.
NOT_HELD = ("onnxruntime",)


def asked(words: Sequence[str]) -> str | None:
    """The value of ``--isa`` in a command line; None without it."""
    for word, following in zip(words, [*words[1:], ""]):
        if word == "--isa":
            return following
        if word.startswith("--isa="):
            return word[len("--isa=") :]
    return None


def hold(words: Sequence[str]) -> None:
    """Set the variables of ``--isa`` for this process, before torch is loaded."""
    os.environ.update(VARIABLES.get(asked(words) or "", {}))


def holds(name: str) -> bool:
    """Whether this process was started with the variables of an instruction set."""
    return all(os.environ.get(key) == value for key, value in VARIABLES[name].items())
