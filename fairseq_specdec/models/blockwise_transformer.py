"""``--arch blockwise_transformer``: a Transformer that also predicts tokens further ahead.

Combined scoring and proposal model of blockwise parallel decoding (Stern et al. 2018, sections 4
and 6). It is an ordinary translation model whose output is that of head 1, and its own verifier.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

import torch
from fairseq import utils
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import register_model
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer.transformer_base import TransformerModelBase
from fairseq.models.transformer.transformer_decoder import TransformerDecoderBase
from fairseq.modules import FairseqDropout
from torch import Tensor, nn

from fairseq_specdec.errors import UsageError

from ..checkpoints.content import get_setting, set_setting
from ..io.flag_values import AT_LEAST_0, AT_LEAST_1, check_flags, flag
from ..training.initialisation import load_verifier
from .drafter_config import BALANCED, BASE, BIG, register_architectures, structured

logger = logging.getLogger(__name__)
IDENTITY, LEARNED = "identity", "learned"


def plain(value: Any) -> Any:
    """An enumeration's value."""
    return getattr(value, "value", value)


@dataclass
class BlockwiseConfig(TransformerConfig):
    """fairseq's transformer settings, and those of the heads."""

    block_size: int = flag(
        4, "k of the paper: heads, of which k - 1 look further ahead", AT_LEAST_1
    )
    block_hidden_dim: int = flag(
        0,
        "d_hidden of the paper, hidden units for each head; 0: the decoder's "
        "--decoder-ffn-embed-dim",
        AT_LEAST_0,
    )
    first_head: str = flag(
        IDENTITY,
        "head 1: identity, which leaves the base model's output as it is, or learned, "
        "as in the paper's experiments",
        (IDENTITY, LEARNED),
    )
    freeze_base: bool = flag(
        False, "train the heads only; the base model stays as it is (section 6.1)"
    )
    init_from: Optional[str] = flag(
        None,
        "checkpoint of a trained Transformer to put the heads on; its shape is taken "
        "over, whatever the flags of the architecture say",
    )


class BlockHeads(nn.Module):
    """k heads on one decoder state: Stern et al. 2018, section 6 and Figure 3.

    One hidden layer of n x d_hidden units is shared by n output layers; each adds its output to
    the decoder's state. Head i predicts, through the original vocabulary projection, the i-th token
    after those that the state has seen. n is k, or k - 1 where head 1 is the identity.

    The output layers start at zero: every head starts as the base model's own prediction.
    """

    def __init__(self, cfg: BlockwiseConfig, dim: int):
        super().__init__()
        self.block_size: int = cfg.block_size
        self.first_is_learned = cfg.first_head == LEARNED
        self.dim = dim
        self.learned: list[int] = list(range(1 if self.first_is_learned else 2, cfg.block_size + 1))
        self.activation = utils.get_activation_fn(activation=str(plain(cfg.activation_fn)))
        name = type(self).__name__
        self.dropout_module = FairseqDropout(cfg.dropout, module_name=name)
        self.activation_dropout_module = FairseqDropout(
            float(cfg.activation_dropout or cfg.relu_dropout or 0.0), module_name=name
        )
        count = len(self.learned)
        hidden = count * (cfg.block_hidden_dim or cfg.decoder.ffn_embed_dim)
        # One matrix for all outputs: a head that is not drawn gets a gradient of zeros.
        # Data-parallel training would wait for a missing one.
        self.hidden = nn.Linear(dim, hidden)
        self.output = nn.Linear(hidden, count * dim)
        nn.init.xavier_uniform_(self.hidden.weight)
        for start_at_zero in (self.hidden.bias, self.output.weight, self.output.bias):
            nn.init.zeros_(start_at_zero)

    def rows(self, first: int, last: int) -> slice:
        """Rows of ``output`` that belong to the learned heads ``first`` .. ``last``."""
        start = self.learned[0]
        return slice((first - start) * self.dim, (last + 1 - start) * self.dim)

    def forward(self, features: Tensor, head: int) -> Tensor:
        """The vocabulary projection's input for head ``head`` (1 .. k): [.., C] to [.., C]."""
        if head not in self.learned:
            return features
        rows = self.rows(head, head)
        x = self.activation_dropout_module(self.activation(self.hidden(features)))
        x = nn.functional.linear(x, self.output.weight[rows], self.output.bias[rows])
        return features + self.dropout_module(x)


class BlockwiseDecoder(TransformerDecoderBase):
    """fairseq's decoder with ``block_heads``; its output is head 1's."""

    def __init__(
        self, cfg: Any, dictionary: Any, embed_tokens: nn.Embedding, no_encoder_attn: bool = False
    ):
        super().__init__(cfg, dictionary, embed_tokens, no_encoder_attn=no_encoder_attn)
        self.block_size: int = cfg.block_size
        self.block_heads = BlockHeads(cfg, self.output_embed_dim)

    def output_layer(self, features: Tensor, head: int = 1) -> Tensor:
        """Logits [.., V] of a head, from features [.., C] as ``extract_features`` gives them."""
        logits: Tensor = super().output_layer(self.block_heads(features, head))
        return logits


@register_model("blockwise_transformer")
class BlockwiseTransformer(TransformerModelBase):
    """A Transformer and k heads, trained with ``--criterion blockwise_loss``."""

    def __init__(self, cfg: Any, encoder: Any, decoder: BlockwiseDecoder):
        super().__init__(cfg, encoder, decoder)
        self.num_updates = 0
        self.base_is_frozen = bool(cfg.freeze_base)
        if self.base_is_frozen:
            self.requires_grad_(False)
            decoder.block_heads.requires_grad_(True)

    @classmethod
    def add_args(cls, parser: Any) -> None:
        gen_parser_from_dataclass(parser, BlockwiseConfig(), delete_default=True, with_prefix="")

    @classmethod
    def build_decoder(cls, cfg: Any, tgt_dict: Any, embed_tokens: Any) -> BlockwiseDecoder:
        return BlockwiseDecoder(cfg, tgt_dict, embed_tokens, cfg.no_cross_attention)

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "BlockwiseTransformer":
        """Build a model, on a trained Transformer where ``--init-from`` names one.

        ``args`` becomes the checkpoint's model settings: the Transformer's shape is written there,
        and its file name is not kept.

        Raises:
            ValueError: settings that make no sense, or a file that holds no Transformer; the
                message names the flag.
            FileNotFoundError: no such file.
        """
        path, base = get_setting(args, "init_from"), None
        source, target = task.source_dictionary, task.target_dictionary
        if path:
            base = load_verifier("--init-from", path, source, target)
            if isinstance(base, BlockwiseTransformer):
                raise UsageError(
                    "--init-from",
                    f"{path} has heads already",
                    "to train it further pass it to --finetune-from-model or --restore-file",
                )
            set_setting(args, init_from=None, **shape_of(base))
        cfg = structured(BlockwiseConfig, args)
        check_config(cfg)
        model: BlockwiseTransformer = super().build_model(cfg, task)
        if base is not None:
            _copy_base(model, base, path)
        return model

    def set_num_updates(self, num_updates: int) -> None:
        """Keep the number of updates: the head to train is drawn from it."""
        super().set_num_updates(num_updates)
        self.num_updates = num_updates

    def train(self, mode: bool = True) -> "BlockwiseTransformer":
        """As stock; a frozen base runs as it does in decoding, without dropout."""
        super().train(mode)
        if self.base_is_frozen:
            self.encoder.eval()
            self.decoder.eval()
            self.decoder.block_heads.train(mode)
        return self

    def trained_heads(self) -> list[int]:
        """Heads that have something to learn: all, except for the identity on a frozen base."""
        if self.base_is_frozen:
            return list(self.decoder.block_heads.learned)
        return list(range(1, self.decoder.block_size + 1))

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        prev_output_tokens: Tensor,
        heads: Sequence[int] | None = None,
        where: Sequence[Tensor] | None = None,
        **options: Any,
    ) -> Any:
        """The logits of head 1 as stock models give them, or of chosen heads at chosen places.

        Args:
            src_tokens: long [B, S].
            src_lengths: long [B].
            prev_output_tokens: long [B, T].
            heads: numbers of heads, 1 .. k; None for an ordinary translation model's output.
            where: for each of ``heads`` bool [B, T], the N states to apply it to.
            options: stock's.

        Returns:
            Stock's pair; with ``heads`` a list of logits [N, V], one for each.
        """
        if heads is None or where is None:
            return super().forward(src_tokens, src_lengths, prev_output_tokens, **options)
        # Nothing below the heads of a frozen base needs to be kept for a backward pass.
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.base_is_frozen):
            encoder_out = self.encoder(src_tokens, src_lengths=src_lengths)
            features, _ = self.decoder.extract_features(prev_output_tokens, encoder_out)
        logits = [
            self.decoder.output_layer(features[chosen], head) for head, chosen in zip(heads, where)
        ]
        block_heads = self.decoder.block_heads
        if not set(heads) & set(block_heads.learned):
            # Data-parallel training waits for a gradient of every parameter, also where head 1 is
            # drawn, and is the identity.
            zeros = [parameter.flatten()[:0].sum() for parameter in block_heads.parameters()]
            logits[0] = logits[0] + torch.stack(zeros).sum()
        return logits


SHAPE = (
    "share_all_embeddings", "share_decoder_input_output_embed", "max_source_positions",
    "max_target_positions", "activation_fn", "layernorm_embedding", "no_scale_embedding",
    "no_token_positional_embeddings", "no_decoder_final_norm", "no_cross_attention",
    "cross_self_attention", "quant_noise_pq", "quant_noise_pq_block_size",
)  # fmt: skip
SIDE = ("embed_dim", "ffn_embed_dim", "attention_heads", "normalize_before", "learned_pos")


def shape_of(base: TransformerModelBase) -> Any:
    """The settings of a Transformer that decide what its weights compute, by their flat names."""
    cfg = TransformerConfig.from_namespace(base.cfg)
    shape = {name: plain(getattr(cfg, name)) for name in SHAPE}
    for side in ("encoder", "decoder"):
        part = getattr(cfg, side)
        shape.update({f"{side}_{name}": plain(getattr(part, name)) for name in SIDE})
        shape[f"{side}_layers"] = len(getattr(base, side).layers)
        shape[f"{side}_layers_to_keep"] = None
    shape["decoder_input_dim"] = int(cfg.decoder.input_dim)
    shape["decoder_output_dim"] = int(cfg.decoder.output_dim)
    return shape


def _copy_base(model: BlockwiseTransformer, base: TransformerModelBase, path: str) -> None:
    """Copy every weight; only the heads keep their own."""
    kept = {name: each for name, each in model.state_dict().items() if ".block_heads." in name}
    try:
        model.load_state_dict({**kept, **base.state_dict()})
    except RuntimeError as error:
        problem = f"{path} is a Transformer of another kind: {error}"
        raise UsageError("--init-from", problem) from error
    logger.info("--init-from %s: its shape and all its weights taken over", path)


def check_config(cfg: BlockwiseConfig) -> None:
    """Refuse what a blockwise model cannot be."""
    check_flags(cfg, BlockwiseConfig)
    if cfg.block_size == 1 and cfg.first_head == IDENTITY:
        raise UsageError(
            f"--block-size 1 with --first-head {IDENTITY} is the base model alone",
            f"use a larger --block-size, or --first-head {LEARNED}",
        )
    if cfg.adaptive_softmax_cutoff is not None:
        raise UsageError("--adaptive-softmax-cutoff", "a blockwise_transformer does not support it")


register_architectures("blockwise_transformer", BlockwiseConfig, {
    "blockwise_transformer": {**BASE, **BALANCED},  # Stern et al. 2018, section 7.1
    "blockwise_transformer_base": {**BASE, **BALANCED},
    "blockwise_transformer_big": {**BIG, **BALANCED},
    "blockwise_transformer_tiny": {  # for tests and demonstrations
        "embed_dim": 32, "ffn_embed_dim": 64, "attention_heads": 4,
        "encoder_layers": 2, "decoder_layers": 2,
    },
})  # fmt: skip
