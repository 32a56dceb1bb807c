"""Models of the papers' sizes with random weights, for replays."""

from __future__ import annotations

import argparse
import logging
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.models.transformer import TransformerModel
from fairseq.models.transformer.transformer_legacy import base_architecture
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from .timing import generation_flags

logger = logging.getLogger(__name__)


class Size(NamedTuple):
    """A verifier's shape, and the architecture of its drafter.

    Attributes:
        title: what it is, in words.
        layers: of encoder and decoder.
        width: embedding dimension.
        inner: dimension inside the feed-forward layers.
        heads: attention heads.
        drafter: ``--arch`` of the drafter; None where the paper drafts with the source only.
    """

    title: str
    layers: Tuple[int, int]
    width: int
    inner: int
    heads: int
    drafter: Optional[str]


SIZES: Dict[str, Size] = {
    "base": Size(
        "Transformer-base, 6+6 layers (Xia et al., 4.1)", (6, 6), 512, 2048, 8, "spec_drafter_base"
    ),
    "12+2": Size(
        "12+2 layers, 512 wide (Xia et al., Table 1)", (12, 2), 512, 2048, 8, "spec_drafter_base"
    ),
    "big": Size(
        "Transformer-big, 6+6 layers (Ge et al., Table 8)", (6, 6), 1024, 4096, 16,
        "nar_drafter_big",
    ),
    "gec": Size(
        "Transformer-big for error correction, 6+6 layers (Ge et al., 3.1)", (6, 6), 1024, 4096,
        16, None,
    ),
}  # fmt: skip


def _flags(**settings: Any) -> argparse.Namespace:
    return argparse.Namespace(dropout=0.0, share_all_embeddings=True, **settings)


def verifier_flags(size: Size) -> argparse.Namespace:
    """The settings of a verifier, as fairseq-train would save them."""
    flags = _flags(arch="transformer", _name="transformer")
    for side, layers in zip(("encoder", "decoder"), size.layers):
        setattr(flags, f"{side}_layers", layers)
        setattr(flags, f"{side}_embed_dim", size.width)
        setattr(flags, f"{side}_ffn_embed_dim", size.inner)
        setattr(flags, f"{side}_attention_heads", size.heads)
    base_architecture(flags)
    flags.max_source_positions = flags.max_target_positions = 1024
    return flags


class RandomModels:
    """Random models of a size, and random sentences, on their device.

    Args:
        size: of the papers.
        vocabulary: number of tokens, the special ones included.
        seed: of weights and sentences.
        cuda: put everything on the GPU.
        fp16: halve the weights.
        folder: where the dictionaries stand or will, for other engines.

    Attributes:
        task: holds the dictionary, which source and target share.
        flags: the verifier's settings.
        verifier: in eval mode.
    """

    def __init__(
        self, size: Size, vocabulary: int, seed: int, cuda: bool, fp16: bool, folder: str
    ) -> None:
        self.size, self.seed, self.cuda, self.fp16 = size, seed, cuda, fp16
        words = Dictionary()
        for number in range(vocabulary - len(words)):
            words.add_symbol(f"w{number}")
        languages = TranslationConfig(data=folder, source_lang="src", target_lang="tgt")
        self.task = TranslationTask(languages, words, words)
        self.flags = verifier_flags(size)
        self.verifier = self._ready(TransformerModel, self.flags, seed)

    def _ready(self, kind: Any, flags: argparse.Namespace, seed: int) -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = kind.build_model(flags, self.task)
        if self.fp16:
            model.half()
        if self.cuda:
            model.cuda()
        model.prepare_for_inference_(argparse.Namespace(generation=generation_flags()))
        return model

    def drafter(self, arch: str, block_size: int) -> Any:
        """A block drafter, described by the flags of its training."""
        flags = _flags(arch=arch, _name=arch, block_size=block_size)
        ARCH_CONFIG_REGISTRY[arch](flags)
        return self._ready(ARCH_MODEL_REGISTRY[arch], flags, self.seed + 1)

    def batches(self, sentences: int, length: int, size: int) -> List[Dict[str, Any]]:
        """fairseq samples of ``size`` random sentences, each of ``length`` tokens with </s>."""
        words = self.task.source_dictionary
        generator = torch.Generator().manual_seed(self.seed)
        tokens = torch.randint(words.nspecial, len(words), (sentences, length), generator=generator)
        tokens[:, -1] = words.eos()
        found = []
        for numbers in torch.arange(sentences).split(size):
            net_input = {
                "src_tokens": tokens[numbers],
                "src_lengths": torch.full((len(numbers),), length),
            }
            sample = {"id": numbers, "nsentences": len(numbers), "net_input": net_input}
            found.append(utils.move_to_cuda(sample) if self.cuda else sample)
        return found

    def models(self, paths: Sequence[str]) -> List[Any]:
        """The verifier, as ``Workload.models`` gives it; ``paths`` name its saved copy."""
        return [self.verifier]

    def save(self, path: str) -> None:
        """Write the verifier's checkpoint, with what loading needs."""
        weights = {name: value.float().cpu() for name, value in self.verifier.state_dict().items()}
        past = {"num_updates": 0, "optimizer_name": "", "criterion_name": ""}
        state = {
            "args": self.flags,
            "model": weights,
            "optimizer_history": [dict(past, lr_scheduler_state={})],
            "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
        }
        torch.save(state, path)
