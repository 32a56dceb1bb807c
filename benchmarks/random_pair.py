"""Data and models of a paper's size with random content, as files and in memory."""

from __future__ import annotations

import argparse
import os
from typing import Any, NamedTuple

import torch
from fairseq.data import Dictionary, indexed_dataset
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_specdec.checkpoints.content import UNTRAINED

SOURCE, TARGET, SPLIT = "src", "tgt", "test"


class Size(NamedTuple):
    """A verifier's architecture and that of its drafter.

    Attributes:
        title: what it is, in words.
        arch: ``--arch`` of the verifier.
        settings: flags of its training that differ from the architecture's, by field name.
        drafter: ``--arch`` of the drafter; None where the paper drafts with the source only.
    """

    title: str
    arch: str
    settings: dict[str, int]
    drafter: str | None


BASE, BIG = "transformer", "transformer_wmt_en_de_big"
WIDE = {"embed_dim": 1024, "ffn_embed_dim": 4096, "attention_heads": 16, "layers": 12,
        "normalize_before": True}  # fmt: skip
LARGE = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in WIDE.items()}
SIZES: dict[str, Size] = {
    "base": Size("Transformer-base, 6+6 layers (Xia et al., 4.1)", BASE, {}, "spec_drafter_base"),
    "12+2": Size(
        "12+2 layers, 512 wide (Xia et al., Table 1)", BASE,
        {"encoder_layers": 12, "decoder_layers": 2}, "spec_drafter_base",
    ),
    "big": Size("Transformer-big, 6+6 layers (Ge et al., Table 8)", BIG, {}, "nar_drafter_big"),
    "nllb-600m": Size("NLLB-200's and M2M-100's, 12+12 layers, 1024 wide", BASE, LARGE, None),
}  # fmt: skip


def model(task: Any, seed: int, arch: str, **settings: int) -> Any:
    """A model with random weights; its ``args`` are what fairseq-train would save."""
    flags = argparse.Namespace(
        arch=arch, _name=arch, dropout=0.0, share_all_embeddings=True, **settings
    )
    ARCH_CONFIG_REGISTRY[arch](flags)
    flags.max_source_positions = flags.max_target_positions = 1024
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = ARCH_MODEL_REGISTRY[arch].build_model(flags, task).eval()
    made.args = flags
    return made


def verifier(size: Size, task: Any, seed: int) -> Any:
    return model(task, seed, size.arch, **size.settings)


def drafter(size: Size, task: Any, seed: int, block_size: int) -> Any:
    return model(task, seed + 1, str(size.drafter), block_size=block_size)


def save(model: Any, path: str) -> None:
    """Write a model's checkpoint with what loading needs."""
    state = {
        "args": model.args,
        "model": model.state_dict(),
        **UNTRAINED,
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
    }
    torch.save(state, path)


def write(settings: Any, folder: str) -> Any:
    """Write dictionaries and sentences as fairseq-preprocess does.

    Args:
        settings: ``vocabulary`` (number of tokens, the special ones included), ``sentences``,
            ``length`` (tokens of each, </s> included) and ``seed``.
        folder: an empty one.

    Returns:
        the task.
    """
    words = Dictionary()
    for number in range(settings.vocabulary - len(words)):
        words.add_symbol(f"w{number}")
    generator = torch.Generator().manual_seed(settings.seed)
    shape = (settings.sentences, settings.length)
    tokens = torch.randint(words.nspecial, len(words), shape, generator=generator)
    tokens[:, -1] = words.eos()
    stem = os.path.join(folder, f"{SPLIT}.{SOURCE}-{TARGET}.{SOURCE}")
    builder = indexed_dataset.make_builder(f"{stem}.bin", "mmap", vocab_size=len(words))
    for row in tokens:
        builder.add_item(row)
    builder.finalize(f"{stem}.idx")
    for side in (SOURCE, TARGET):
        words.save(os.path.join(folder, f"dict.{side}.txt"))
    languages = TranslationConfig(data=folder, source_lang=SOURCE, target_lang=TARGET)
    return TranslationTask(languages, words, words)
