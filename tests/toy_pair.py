"""The toy verifier and drafter as files, with dictionaries and raw text: what a user has."""

from argparse import Namespace

import torch
from fairseq.models import ARCH_CONFIG_REGISTRY
from toy_blockwise import save_checkpoint
from toy_translation import dictionary, sentences, toy_drafter, toy_model, translate

ARCH = "spec_drafter_tiny"
SENTENCES = 40


def text_of(words):
    return " ".join(f"w{word}" for word in words)


def write_pair(folder):
    """dict.{src,tgt}.txt, verifier.pt, drafter.pt (blocks of 4), other.pt, and test.src-tgt.*."""
    for side in ("src", "tgt"):
        dictionary().save(str(folder / f"dict.{side}.txt"))
    save_checkpoint(folder / "verifier.pt", toy_model())
    save_checkpoint(folder / "other.pt", toy_model(seed=2, updates=150))
    given = {"arch": ARCH, "block_size": 4, "dropout": 0.0, "share_all_embeddings": True}
    args = Namespace(_name=ARCH, **given)
    ARCH_CONFIG_REGISTRY[ARCH](args)
    state = torch.load(str(folder / "verifier.pt"), weights_only=False)
    state.update(args=args, model=toy_drafter().state_dict())
    torch.save(state, str(folder / "drafter.pt"))
    sources = sentences(SENTENCES, seed=77)
    for side, lines in (("src", sources), ("tgt", map(translate, sources))):
        text = "".join(text_of(line) + "\n" for line in lines)
        (folder / f"test.src-tgt.{side}").write_text(text, encoding="utf-8")
    return folder
