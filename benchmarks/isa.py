"""``--isa``: every system held to one set of instructions. Standard library only: it runs before
torch is loaded."""

import os
import sys

# Each library reads its own variable, once, as it is loaded. ONNX Runtime has none.
VARIABLES = {
    "avx2": {
        "FAIRSEQ_SPECDEC_NATIVE": "x86_64_v3",
        "ATEN_CPU_CAPABILITY": "avx2",  # torch's own kernels
        "ONEDNN_MAX_CPU_ISA": "AVX2",  # products of torch and CTranslate2
        "DNNL_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "CT2_FORCE_CPU_ISA": "AVX2",
    }
}


def hold():
    """Set the variables of ``--isa`` in this process's command line."""
    parts = [part for argument in sys.argv for part in argument.split("=", 1)]
    asked = dict(zip(parts, parts[1:])).get("--isa", "")
    os.environ.update(VARIABLES.get(asked, {}))
