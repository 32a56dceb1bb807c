"""Resident memory of this process in MiB, and random models that take much of it."""

import gc
from argparse import Namespace

from fairseq.models.transformer import TransformerModel, base_architecture
from toy_translation import both

from fairseq_specdec.engine.memory import give_back_freed_memory


def resident():
    gc.collect()
    give_back_freed_memory()
    with open("/proc/self/status", encoding="utf-8") as lines:
        (line,) = [line for line in lines if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def random_model(width, words, halves):
    """2 + 2 layers, and one table of embeddings."""
    sides = both(embed_dim=width, ffn_embed_dim=4 * width, layers=2)
    args = Namespace(**sides, share_all_embeddings=True)
    base_architecture(args)
    task = Namespace(source_dictionary=words, target_dictionary=words)
    model = TransformerModel.build_model(args, task).eval()
    return model.half().float() if halves else model
