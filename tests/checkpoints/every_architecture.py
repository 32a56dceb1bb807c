"""Builds, saves, loads and runs a tiny model of every architecture of fairseq that reads text.

``python every_architecture.py FOLDER [--plugin]`` writes the checkpoints that FOLDER lacks, of one
architecture of each class, reads them as fairseq's own commands do, and prints as JSON what each
model computes, or what failed. With --plugin the plugin is imported first.
"""

import argparse
import hashlib
import json
import logging
import os
import re
import sys

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
    from fairseq.data import Dictionary
    from fairseq.tasks.translation import TranslationConfig, TranslationTask

    dictionary = Dictionary()
    for word in "abcdefgh":
        dictionary.add_symbol(word)
    task = TranslationTask(TranslationConfig(), dictionary, dictionary)
    task.dictionary = dictionary  # where language models look for it
    return task


def write(arch, path, task):
    """A checkpoint of a tiny model with random weights."""
    import torch
    from fairseq import models

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


def digest(tensors):
    hashed = hashlib.sha256()
    for name, tensor in tensors:
        hashed.update(name.encode() + tensor.double().numpy().tobytes())
    return hashed.hexdigest()[:16]


def hypotheses(model, task):
    """What beam search says, for models that it decodes."""
    import torch

    words = torch.tensor([[4, 5, 6, 7, 2], [1, 1, 9, 8, 2]])
    inputs = {"src_tokens": words, "src_lengths": torch.tensor([5, 3])}
    options = argparse.Namespace(beam=3, max_len_b=6, no_repeat_ngram_size=0)
    generator = task.build_generator([model], options)
    inputs["prev_output_tokens"] = torch.full((2, 1), 2)
    ranked = generator.generate([model], {"net_input": inputs, "id": torch.arange(2)})
    return [[each["tokens"].tolist(), float(each["score"])] for row in ranked for each in row]


def run(arch, path, task):
    from fairseq import checkpoint_utils

    (model,), _ = checkpoint_utils.load_model_ensemble([path], task=task)
    model.eval()
    facts = {"class": type(model).__name__, "weights": digest(sorted(model.state_dict().items()))}
    try:
        facts["hypotheses"] = hypotheses(model, task)
    except Exception as error:  # NAT models and language models
        facts["failed to decode"] = type(error).__name__
    return facts


def attempted(act, *arguments):
    try:
        return act(*arguments)
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {str(error)[:200]}"}


def architectures():
    """Names in fairseq's registry."""
    from fairseq.models import ARCH_MODEL_REGISTRY

    first = {}
    for arch, kind in sorted(ARCH_MODEL_REGISTRY.items()):
        if kind.__module__.startswith("fairseq.") and not SPEECH.search(kind.__module__):
            first.setdefault(kind, arch)
    return list(first.values())


def main(folder, *flags):
    if "--plugin" in flags:
        import fairseq_specdec.tasks  # noqa: F401
    logging.disable(logging.CRITICAL)
    task, results = make_task(), {}
    for arch in architectures():
        path = os.path.join(folder, arch + ".pt")
        written = None if os.path.exists(path) else attempted(write, arch, path, task)
        results[arch] = written or attempted(run, arch, path, task)
    sys.stdout.write("\n" + json.dumps(results) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
