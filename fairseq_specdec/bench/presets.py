"""``--preset``: the flags of the demo pairs' tables, for a folder of data."""

import os
import shlex

import torch

from fairseq_specdec.engine.backend import quickest_format
from fairseq_specdec.engine.eager.linear import computes_in_bf16

PRESETS: dict[str, str] = {
    "demo_ende": (
        "-s en -t de --system 'greedy: --strategy greedy' --system 'iad: --strategy iad' "
        "--system 'gad: --strategy gad --drafter-path {drafter} --drafter-dtype {dtype}' "
        "--system 'gad++: --strategy gad++ --top-beta 3 --tau 1.0 --drafter-path {drafter} "
        "--drafter-dtype {dtype}'"
    ),
    "demo_edit": (
        "-s src -t tgt --system 'greedy: --strategy greedy' --system 'iad: --strategy iad' "
        "--system 'iad --edits: --strategy iad --edits {edits}'"
    ),
}  # fmt: skip
SHARED = "--path {verifier} --gen-subset test --tokenizer moses --remove-bpe --cpu --no-memory"


def flags_of(name: str, data: str) -> list[str]:
    """The flags of a preset. ``data``: folder of ``verifier.pt`` and, where a system drafts with
    one, ``drafter.pt``. The drafter computes in the number format that is the fastest here, for
    gad++ too."""
    quickest = quickest_format("auto", []) == torch.int8
    dtype = "int8" if quickest else "bf16" if computes_in_bf16() else "same"
    values = {"verifier": os.path.join(data, "verifier.pt"), "dtype": dtype}
    for key, file in (("drafter", "drafter.pt"), ("edits", "edits.tsv")):
        values[key] = shlex.quote(os.path.join(data, file))  # within the word of a --system
    return [word.format(**values) for word in shlex.split(f"{SHARED} {PRESETS[name]}")]
