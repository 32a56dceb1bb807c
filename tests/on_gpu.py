"""Tensors that say they lie on a GPU, for the paths that avoid waiting for one."""

import torch


class OnGPU(torch.Tensor):
    """Its numbers lie in memory, and what is computed from it says the same of itself."""

    is_cuda = True


def on_gpu(tensor):
    return tensor.as_subclass(OnGPU)
