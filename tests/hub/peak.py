"""Makes a checkpoint, or prints the peak memory of loading and decoding with it, in MiB.

    python peak.py make FOLDER
    python peak.py FILE FORMAT

FORMAT is --verifier-dtype. To be run in a process of its own. The second prints how much the
process grew at most from the imports on. A small model decodes first, so that what is there once is
not counted.
"""

import os
import pathlib
import sys
from argparse import Namespace

import torch

from fairseq_specdec.hub import SpeculativeTranslator

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "engine" / "native"))
from resident import dictionary, random_model, resident

PAST = {"num_updates": 0, "optimizer_name": "", "criterion_name": "", "lr_scheduler_state": {}}


def make(folder, width, words):
    """A checkpoint in half precision and its dictionaries."""
    model = random_model(width, dictionary(words), True).half()
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("embed_dim", width), ("ffn_embed_dim", 4 * width), ("layers", 2))
    }
    args = Namespace(arch="transformer", task="translation", share_all_embeddings=True, **sides)
    args.source_lang, args.target_lang, args.data = "a", "b", str(folder)
    state = {
        "args": args, "model": model.state_dict(), "optimizer_history": [PAST],
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
    }  # fmt: skip
    os.makedirs(folder)
    torch.save(state, os.path.join(folder, "verifier.pt"))
    for side in "ab":
        dictionary(words).save(os.path.join(folder, f"dict.{side}.txt"))


def decoding(path, number_format):
    """A translator that has decoded something."""
    settings = {"strategy": "greedy", "backend": "native", "verifier_dtype": number_format}
    translator = SpeculativeTranslator.from_pretrained(
        path, bpe=None, tokenizer=None, max_len_b=8, device="cpu", **settings
    )
    translator.translate("w1 w2")
    return translator


def measured(path, number_format):
    small = os.path.join(os.path.dirname(os.path.dirname(path)), "small", "verifier.pt")
    kept = [decoding(small, number_format)]
    before = resident()
    with open("/proc/self/clear_refs", "w", encoding="utf-8") as clear:
        clear.write("5")  # the peak begins anew
    kept.append(decoding(path, number_format))
    with open("/proc/self/status", encoding="utf-8") as lines:
        (line,) = [line for line in lines if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024 - before


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "make":
        torch.manual_seed(1)
        make(os.path.join(sys.argv[2], "small"), 64, 100)
        make(os.path.join(sys.argv[2], "large"), 512, 16_000)
    else:
        sys.stdout.write(str(measured(*sys.argv[1:])))
