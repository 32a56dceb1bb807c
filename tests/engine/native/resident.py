"""Prints how much resident memory a model takes on the native backend in MiB, how many weights it
has, and how many of them are embeddings.

    python resident.py FORMAT HALVES

FORMAT is --verifier-dtype; HALVES, 1 or 0: the weights are such as half precision holds. To be run
in a process of its own. A small model decodes first, so that what is there once is not counted.
"""

import gc
import sys
from argparse import Namespace

import torch
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModel, base_architecture

from fairseq_specdec.config import TranslationSpecDecConfig
from fairseq_specdec.decoding.builder import build_generator
from fairseq_specdec.engine.memory import give_back_freed_memory


def resident():
    gc.collect()
    give_back_freed_memory()
    with open("/proc/self/status", encoding="utf-8") as lines:
        (line,) = [line for line in lines if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def dictionary(count):
    words = Dictionary()
    for word in range(count - len(words)):
        words.add_symbol(f"w{word}")
    return words


def random_model(width, words, halves):
    """2 + 2 layers, and one table of embeddings."""
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("embed_dim", width), ("ffn_embed_dim", 4 * width), ("layers", 2))
    }
    args = Namespace(**sides, share_all_embeddings=True)
    base_architecture(args)
    task = Namespace(source_dictionary=words, target_dictionary=words)
    model = TransformerModel.build_model(args, task).eval()
    return model.half().float() if halves else model


def decoding(number_format, model, words):
    """A generator that has decoded something."""
    settings = TranslationSpecDecConfig(
        strategy="greedy", backend="native", verifier_dtype=number_format
    )
    generator = build_generator(
        [model], words, words, Namespace(beam=1, max_len_b=8), settings, free_unpacked=True
    )
    tokens = torch.tensor([[5, 6, 7, 2]])
    sample = {"net_input": {"src_tokens": tokens, "src_lengths": torch.tensor([4])}}
    generator.generate([model], sample)
    return generator


def main(number_format, halves):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    few, many = dictionary(100), dictionary(16_000)
    kept = [decoding(number_format, random_model(64, few, halves), few)]
    before = resident()
    model = random_model(512, many, halves)
    count = sum(parameter.numel() for parameter in model.parameters())
    kept.append(decoding(number_format, model, many))
    figures = resident() - before, count, model.decoder.embed_tokens.num_embeddings * 512
    sys.stdout.write(" ".join(map(str, figures)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] == "1")
