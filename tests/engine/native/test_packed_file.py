"""The numbers of packed files stay what the version of their format says."""

import hashlib

import pytest
import torch

from fairseq_specdec.engine.native import packed_file
from fairseq_specdec.engine.native.linear import PARTS, NativeLinear

# Where a digest changes, files that were packed before give other results: raise
# ``packed_file.VERSION`` with it.
VERSION = 1
DIGESTS = {
    "x86_64_v3": (
        *("a2a9e9bcecf206f2", "f6ef7a50407507a5", "813242a3b987cc9c", "e9f1acb694f001bc"),
        "d80f174d41ae7add",
    ),
    "avx_vnni": (
        *("a2a9e9bcecf206f2", "f6ef7a50407507a5", "813242a3b987cc9c", "b9bff50bf6f9a717"),
        "d80f174d41ae7add",
    ),
    "avx512": (
        *("e0317cd302258358", "fcdc6079d86a3ba9", "11d62925301aeab1", "1002c6d0fcb953e0"),
        "d7d0eeb73cb05b60",
    ),
    "avx512_vnni_bf16": (
        *("e0317cd302258358", "fcdc6079d86a3ba9", "11d62925301aeab1", "aed305ba44b70aeb"),
        "312d1eb13d884282",
    ),
}  # fmt: skip


def test_each_variant_packs_as_its_version_does(loaded):
    if loaded.variant not in DIGESTS:
        pytest.skip(f"no digests of {loaded.variant}")
    numbers = torch.arange(70 * 67).remainder(251).float().view(70, 67) - 125
    bias, digests = torch.arange(70).float(), []
    kinds = (7, "fp32"), (8, "fp32"), (7, "bf16"), (7, "int8"), (7, "int7")
    for divisor, number_format in kinds:
        product = NativeLinear(loaded, numbers / divisor, bias, number_format)
        parts = [product.parts[name] for name in PARTS if name in product.parts]
        digests.append(hashlib.sha256(b"".join(each.numpy() for each in parts)).hexdigest()[:16])
    assert (packed_file.VERSION, *digests) == (VERSION, *DIGESTS[loaded.variant])
