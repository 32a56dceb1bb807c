"""What trains here, in one line: how many processes, in which precision, on which device.

As in the papers: fp16 where the GPU computes in it fast (V100 and later), else fp32 (P100). With
``--cpu`` the processor, which computes in fp32, or with ``--bf16`` in bf16 if it has instructions
for that.
"""

import argparse
import pathlib
import sys
from typing import Optional, Sequence

import torch

FAST_HALF = (7, 0)  # compute capability of the V100
CPU_INFO = pathlib.Path("/proc/cpuinfo")
CPU_BF16 = {"avx512_bf16", "amx_bf16", "bf16"}  # x86's names, and Arm's


def precision(capability: "tuple[int, int]") -> str:
    """The number format for a GPU of this compute capability."""
    return "fp16" if tuple(capability) >= FAST_HALF else "fp32"


def computes_in_bf16(info: pathlib.Path = CPU_INFO) -> bool:
    """Whether the processor has instructions for bf16; without them it is slower than fp32.

    Args:
        info: where Linux describes it; elsewhere there is no such file, and the answer is no.
    """
    if not info.exists():
        return False
    return not CPU_BF16.isdisjoint(info.read_text(encoding="utf-8", errors="replace").split())


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the command; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", action="store_true", help="whatever GPUs there are")
    parser.add_argument("--bf16", action="store_true", help="on a processor that computes in it")
    options = parser.parse_args(arguments)
    count = 0 if options.cpu else torch.cuda.device_count()
    if not count:
        print("1", "bf16" if options.bf16 and computes_in_bf16() else "fp32", "cpu")
        return 0
    slowest = min(torch.cuda.get_device_capability(i) for i in range(count))
    print(count, precision(slowest), torch.cuda.get_device_name(0).replace(" ", "_"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
