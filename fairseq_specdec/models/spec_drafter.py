"""The drafter as fairseq registers it: ``--arch spec_drafter_base`` and its sisters.

Deep encoder and shallow decoder (Xia et al. 2023, section 3.1: Spec-Drafter, 12+2) or the balanced
6+6 of Ge et al. 2022 (section 3.2).
"""

from argparse import Namespace
from dataclasses import dataclass, field
from typing import Any, Dict, Optional

import torch
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import (
    FairseqEncoderDecoderModel,
    register_model,
    register_model_architecture,
)
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer.transformer_base import TransformerModelBase
from fairseq.models.transformer.transformer_encoder import TransformerEncoderBase
from omegaconf import OmegaConf, open_dict
from torch import Tensor

from ..training.glancing import choose_revealed
from ..training.initialisation import initialise
from .block_decoder import BlockDecoder, SourceCopy


@dataclass
class SpecDrafterConfig(TransformerConfig):
    """fairseq's transformer settings, and what makes a drafter of them."""

    block_size: int = field(
        default=25, metadata={"help": "tokens drafted at once (k in the papers)"}
    )
    num_cuts: int = field(
        default=1,
        metadata={
            "help": "random prefixes of each sentence that share one pass in training; "
            "1 is the papers' scheme"
        },
    )
    bidirectional_prefix: bool = field(
        default=False,
        metadata={
            "help": "let the prefix attend to itself and the block in both directions, as in the "
            "papers; its states can then not be cached in decoding (needs --num-cuts 1)"
        },
    )
    source_copy: bool = field(
        default=False,
        metadata={"help": "start the masks from a soft copy of the source's embeddings"},
    )
    init_encoder_from: Optional[str] = field(
        default=None,
        metadata={"help": "checkpoint whose encoder and embeddings the drafter starts from"},
    )
    init_decoder_from: Optional[str] = field(
        default=None,
        metadata={"help": "checkpoint whose decoder layers and embeddings the drafter starts from"},
    )
    init_decoder_layers: Optional[str] = field(
        default=None,
        metadata={
            "help": "which layers --init-decoder-from takes, as in '0,5' "
            "(default: spread evenly from the first to the last)"
        },
    )


@register_model("spec_drafter")
class SpecDrafterModel(FairseqEncoderDecoderModel):
    """Drafts the next k tokens in parallel from the source and an accepted prefix.

    Args:
        cfg: settings.
        encoder: a stock ``TransformerEncoderBase``.
        decoder: a :class:`BlockDecoder`.
    """

    def __init__(
        self, cfg: SpecDrafterConfig, encoder: TransformerEncoderBase, decoder: BlockDecoder
    ):
        super().__init__(encoder, decoder)
        self.cfg = cfg
        self.num_updates = 0

    @classmethod
    def add_args(cls, parser: Any) -> None:
        """Add the fields of :class:`SpecDrafterConfig` as flags; architectures set the defaults."""
        gen_parser_from_dataclass(parser, SpecDrafterConfig(), delete_default=True, with_prefix="")

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "SpecDrafterModel":
        """Build a drafter; take weights from a verifier where the settings ask for it.

        ``args`` is what the trainer will save as the checkpoint's model settings. Once weights have
        been taken, the fields that name the verifier's file are emptied in it, so a saved drafter
        never asks for that file again.
        """
        cfg = drafter_config(args)
        check_config(cfg)
        source, target = task.source_dictionary, task.target_dictionary
        build = TransformerModelBase.build_embedding
        source_table = build(cfg, source, cfg.encoder.embed_dim, cfg.encoder.embed_path)
        if cfg.share_all_embeddings:
            if source != target:
                raise ValueError(
                    "--share-all-embeddings: the source and target dictionaries differ; preprocess "
                    "with --joined-dictionary, or leave the flag out"
                )
            target_table = source_table
            cfg.share_decoder_input_output_embed = True
        else:
            target_table = build(cfg, target, cfg.decoder.embed_dim, cfg.decoder.embed_path)
        encoder = TransformerEncoderBase(cfg, source, source_table)
        copy = SourceCopy(encoder) if cfg.source_copy else None
        model = cls(cfg, encoder, BlockDecoder(cfg, target, target_table, copy))
        if cfg.init_encoder_from or cfg.init_decoder_from:
            initialise(model, cfg, source, target)
            for settings in (args, cfg):
                _set(settings, init_encoder_from=None, init_decoder_from=None)
                _set(settings, init_decoder_layers=None)
        return model

    def set_num_updates(self, num_updates: int) -> None:
        """Remember how far training is: the glancing ratio follows it."""
        super().set_num_updates(num_updates)
        self.num_updates = num_updates

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        prev_output_tokens: Tensor,
        cuts: Optional[Tensor] = None,
        targets: Optional[Tensor] = None,
        glancing_ratio: float = 0.0,
    ) -> Dict[str, Optional[Tensor]]:
        """Logits for the block positions to learn from, with glancing.

        The encoder runs once. With a ratio above 0 the decoder runs twice: without gradients to
        draft, and again with some targets revealed.

        Args:
            src_tokens: long [B, S].
            src_lengths: long [B].
            prev_output_tokens: long [B, T].
            cuts: long [B, C].
            targets: long [B, C, k], the padding index where there is no target.
            glancing_ratio: share of the wrong drafts that is revealed.

        Returns:
            ``logits`` [N, V] for the N positions of ``learnt`` (bool [B, C, k]) in row-major order;
            ``first_correct`` bool [B, C, k], where the first pass was right, or None without one.

        Raises:
            ValueError: called as an ordinary translation model, without cuts.
        """
        if cuts is None or targets is None:
            raise ValueError(
                "a spec_drafter predicts blocks after given cuts: train it with "
                "--criterion glancing_block_loss, and decode with it as --drafter-path"
            )
        encoder_out = self.encoder(src_tokens, src_lengths=src_lengths)
        state = self.decoder.start_source(src_tokens)
        valid = targets.ne(self.decoder.padding_idx)
        bias = self.decoder.attention_bias(
            cuts, prev_output_tokens.size(1), encoder_out["encoder_out"][0].dtype
        )
        learnt, revealed, first_correct = valid, None, None
        if glancing_ratio > 0:
            with torch.no_grad():
                features = self.decoder(
                    prev_output_tokens, encoder_out, cuts, state, attention_bias=bias
                )
                # on the CPU, max() finds the index several times faster than argmax() does
                drafted = self.decoder.output_layer(features[valid]).max(-1).indices
                first_correct = torch.zeros_like(valid)
                first_correct[valid] = drafted.eq(targets[valid])
                revealed = choose_revealed(first_correct, valid, glancing_ratio)
                learnt = valid & ~revealed
        features = self.decoder(
            prev_output_tokens, encoder_out, cuts, state, targets, revealed, bias
        )
        logits = self.decoder.output_layer(features[learnt])
        return {"logits": logits, "learnt": learnt, "first_correct": first_correct}


SpecDrafter = SpecDrafterModel


def drafter_config(args: Any) -> SpecDrafterConfig:
    """Settings as fairseq hands them over (flags, YAML or a checkpoint), as one structured config."""
    if isinstance(args, SpecDrafterConfig):
        return args
    if OmegaConf.is_config(args):
        args = Namespace(**OmegaConf.to_container(args, resolve=True))
    return SpecDrafterConfig.from_namespace(args)


def check_config(cfg: SpecDrafterConfig) -> None:
    """Refuse what a drafter cannot be.

    Raises:
        ValueError: names the flag and the remedy.
    """
    unsupported = {
        "--adaptive-softmax-cutoff": cfg.adaptive_softmax_cutoff is not None,
        "--adaptive-input": cfg.adaptive_input,
        "--base-layers": bool(cfg.base_layers),
        "--cross-self-attention": cfg.cross_self_attention,
        "--no-cross-attention": cfg.no_cross_attention,
        "--merge-src-tgt-embed": getattr(cfg, "merge_src_tgt_embed", False),
        "--quant-noise-pq": cfg.quant_noise.pq > 0,
        "--encoder-layers-to-keep": bool(cfg.encoder.layers_to_keep),
        "--decoder-layers-to-keep": bool(cfg.decoder.layers_to_keep),
    }
    for flag, asked in unsupported.items():
        if asked:
            raise ValueError(f"{flag}: a spec_drafter does not support it; leave it out")
    for flag, value in (("--block-size", cfg.block_size), ("--num-cuts", cfg.num_cuts)):
        if value < 1:
            raise ValueError(f"{flag} is {value}: it must be at least 1")
    if cfg.bidirectional_prefix and cfg.num_cuts != 1:
        raise ValueError(
            f"--bidirectional-prefix computes the prefix anew for every cut, but --num-cuts is "
            f"{cfg.num_cuts}: use --num-cuts 1, or leave out --bidirectional-prefix"
        )
    if cfg.encoder.embed_dim != cfg.decoder.embed_dim:
        raise ValueError(
            f"--encoder-embed-dim is {cfg.encoder.embed_dim}, --decoder-embed-dim "
            f"{cfg.decoder.embed_dim}: a spec_drafter needs them equal"
        )
    if int(cfg.decoder.output_dim) != cfg.decoder.embed_dim:
        raise ValueError("--decoder-output-dim: a spec_drafter needs it equal --decoder-embed-dim")
    if cfg.source_copy and cfg.no_token_positional_embeddings:
        raise ValueError(
            "--source-copy finds source words by position: leave out "
            "--no-token-positional-embeddings"
        )
    if cfg.init_decoder_layers and not cfg.init_decoder_from:
        raise ValueError("--init-decoder-layers needs --init-decoder-from")


def _get(settings: Any, name: str) -> Any:
    """A setting or None. On omegaconf 2.0, ``getattr(config, name, default)`` ignores its default."""
    if OmegaConf.is_config(settings):
        return settings[name] if name in settings else None
    return getattr(settings, name, None)


def _set(settings: Any, **values: Any) -> None:
    if OmegaConf.is_config(settings):
        with open_dict(settings):
            settings.update(values)
    else:
        for name, value in values.items():
            setattr(settings, name, value)


def set_architecture(args: Any, **shape: Any) -> None:
    """Fill in what neither a flag nor the YAML said, from the architecture.

    Flat settings (``encoder_embed_dim``) and the nested ones of a YAML (``encoder: {embed_dim: ..}``)
    mean the same: nested ones are flattened first, in place.
    """
    for part in ("encoder", "decoder", "quant_noise"):
        nested = _get(args, part)
        if nested is None:
            continue
        for name in nested:
            _set(args, **{f"{part}_{name}": nested[name]})
        if OmegaConf.is_config(args):
            with open_dict(args):
                del args[part]
        else:
            delattr(args, part)

    def default(name: str, value: Any) -> Any:
        if _get(args, name) is None:
            _set(args, **{name: value})
        return _get(args, name)

    width = default("encoder_embed_dim", shape.pop("embed_dim"))
    inner = default("encoder_ffn_embed_dim", shape.pop("ffn_embed_dim"))
    heads = default("encoder_attention_heads", shape.pop("attention_heads"))
    default("decoder_embed_dim", width)
    default("decoder_ffn_embed_dim", inner)
    default("decoder_attention_heads", heads)
    default("decoder_input_dim", _get(args, "decoder_embed_dim"))
    default("decoder_output_dim", _get(args, "decoder_embed_dim"))
    default("max_source_positions", TransformerConfig.max_source_positions)
    default("max_target_positions", TransformerConfig.max_target_positions)
    default("base_layers", 0)  # the trainer compares it with 0
    default("block_size", SpecDrafterConfig.block_size)
    default("num_cuts", SpecDrafterConfig.num_cuts)
    for name, value in shape.items():
        default(name, value)


BASE = {"embed_dim": 512, "ffn_embed_dim": 2048, "attention_heads": 8}
BIG = {"embed_dim": 1024, "ffn_embed_dim": 4096, "attention_heads": 16}
DEEP_SHALLOW = {"encoder_layers": 12, "decoder_layers": 2}
BALANCED = {"encoder_layers": 6, "decoder_layers": 6}


@register_model_architecture("spec_drafter", "spec_drafter")
@register_model_architecture("spec_drafter", "spec_drafter_base")
def spec_drafter_base(args: Any) -> None:
    """12+2 layers, 512 wide (Xia et al. 2023, section 4.1)."""
    set_architecture(args, **BASE, **DEEP_SHALLOW)


@register_model_architecture("spec_drafter", "spec_drafter_big")
def spec_drafter_big(args: Any) -> None:
    """12+2 layers, 1024 wide."""
    set_architecture(args, **BIG, **DEEP_SHALLOW)


@register_model_architecture("spec_drafter", "nar_drafter_base")
def nar_drafter_base(args: Any) -> None:
    """6+6 layers, 512 wide (Ge et al. 2022, section 4.1)."""
    set_architecture(args, **BASE, **BALANCED)


@register_model_architecture("spec_drafter", "nar_drafter_big")
def nar_drafter_big(args: Any) -> None:
    """6+6 layers, 1024 wide."""
    set_architecture(args, **BIG, **BALANCED)


@register_model_architecture("spec_drafter", "spec_drafter_tiny")
def spec_drafter_tiny(args: Any) -> None:
    """2+1 layers, 64 wide, one table for all embeddings: for tests and demonstrations."""
    shape = {"embed_dim": 64, "ffn_embed_dim": 128, "attention_heads": 2}
    set_architecture(
        args, encoder_layers=2, decoder_layers=1, share_all_embeddings=True, **shape
    )
