"""Checkpoints of tiny models of every architecture of fairseq that reads text."""

import argparse
import re

import torch
from fairseq import models
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks.translation import TranslationConfig, TranslationTask

TINY = {
    "dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, "relu_dropout": 0.0,
    "max_source_positions": 32, "max_target_positions": 32, "max_positions": 32,
    "tokens_per_sample": 32, "embed_dim": 8, "criterion": "cross_entropy",
    "no_cross_attention": False, "cross_self_attention": False, "encoder_conv_type": "dynamic",
    "decoder_conv_type": "lightweight", "weight_softmax": True, "encoder_glu": True,
    "decoder_glu": True, "encoder_hidden_size": 8, "decoder_hidden_size": 8,
}  # fmt: skip
for side in ("encoder", "decoder"):
    TINY.update({f"{side}_{name}": size for name, size in {
        "embed_dim": 8, "ffn_embed_dim": 8, "attention_heads": 2, "layers": 1, "hidden_size": 8,
        "conv_dim": 8, "out_embed_dim": 8, "input_dim": 8, "output_dim": 8,
        "kernel_size_list": [3], "embed_path": None, "freeze_embed": False,
    }.items()})  # fmt: skip
# Not as numbers: convolutions as the command line writes them, which fairseq passes to eval.
CONVOLUTIONS = "[(8, 3)] * 2"
SPEECH = re.compile("speech|wav2vec|hubert")
OLD_LAYOUT = ("fconv", "lstm", "transformer_align", "lightconv")


def settings(arch):
    """Flags of a tiny model."""
    made = argparse.Namespace(arch=arch, task="translation", **TINY)
    if arch.startswith("fconv"):
        made.encoder_layers = made.decoder_layers = CONVOLUTIONS
        made.decoder_attention = "True"
    return made


def make_task():
    dictionary = Dictionary()
    for word in "abcdefgh":
        dictionary.add_symbol(word)
    task = TranslationTask(TranslationConfig(), dictionary, dictionary)
    task.dictionary = dictionary  # where language models look for it
    return task


def write(arch, path, task):
    """A checkpoint of a tiny model with random weights; returns these."""
    torch.manual_seed(1)
    args = settings(arch)
    model = models.build_model(settings(arch), task)
    state = {
        "model": model.state_dict(),
        "optimizer_history": [{"num_updates": 1, "optimizer_name": "x", "lr_scheduler_state": {}}],
        "extra_state": {"epoch": 1, "train_iterator": {"epoch": 1}}, "args": None, "cfg": None,
    }  # fmt: skip
    if arch in OLD_LAYOUT:
        state["args"] = args
    else:
        state["cfg"] = {"model": args, "task": {"_name": "translation", "data": "x"}}
    torch.save(state, path)
    return state["model"]


def architectures():
    """One of each class of fairseq that reads no speech."""
    first = {}
    for arch, kind in sorted(ARCH_MODEL_REGISTRY.items()):
        if kind.__module__.startswith("fairseq.") and not SPEECH.search(kind.__module__):
            first.setdefault(kind, arch)
    return list(first.values())
