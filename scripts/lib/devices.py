"""What trains here, in one line: how many processes, in which precision, on which device.

As in the papers: fp16 where the GPU computes in it fast (V100 and later), else fp32 (P100).
"""

import sys

import torch

FAST_HALF = (7, 0)  # compute capability of the V100


def precision(capability: "tuple[int, int]") -> str:
    """The number format for a GPU of this compute capability."""
    return "fp16" if tuple(capability) >= FAST_HALF else "fp32"


def main() -> int:
    """Run the command; returns its exit status."""
    count = torch.cuda.device_count()
    if not count:
        print("1 fp32 cpu")
        return 0
    slowest = min(torch.cuda.get_device_capability(i) for i in range(count))
    print(count, precision(slowest), torch.cuda.get_device_name(0).replace(" ", "_"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
