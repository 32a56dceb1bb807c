"""A plugin of pytest: toys that another torch has trained serve too.

``emulated.py`` loads it, as AArch64 has no wheel of the torch here, and to train toys under QEMU
takes hours. SPECDEC_TOYS_TORCH is that torch's version.
"""

import os
import types

import toy_cache

other = types.ModuleType("torch")
other.__dict__.update(toy_cache.torch.__dict__)
other.__version__ = os.environ["SPECDEC_TOYS_TORCH"]
toy_cache.torch = other
