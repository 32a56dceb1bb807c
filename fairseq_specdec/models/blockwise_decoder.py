"""The decoder of blockwise parallel decoding: fairseq's own, and k heads on its last state."""

from dataclasses import dataclass
from typing import Any, List, Optional

import torch
from fairseq import utils
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer.transformer_decoder import TransformerDecoderBase
from fairseq.modules import FairseqDropout
from torch import Tensor, nn

from ..io.flag_values import AT_LEAST_0, AT_LEAST_1, flag

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
        self.learned: List[int] = list(range(1 if self.first_is_learned else 2, cfg.block_size + 1))
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

    def zero(self) -> Tensor:
        """A zero (0-d) that depends on every parameter, with a gradient of zeros for each."""
        parts = [parameter.flatten()[:0].sum() for parameter in self.parameters()]
        return torch.stack(parts).sum()


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
