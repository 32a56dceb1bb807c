"""``--arch marian_transformer``: fairseq's Transformer with a bias of the output."""

from typing import Any

import torch
from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer import TransformerModel, base_architecture
from torch import nn


@register_model("marian_transformer")
class MarianTransformer(TransformerModel):
    """Marian's models (Junczys-Dowmunt et al. 2018), as ``specdec-convert hf`` writes them.

    Their own order of sines and cosines is a table of positions, and so is their start symbol: it
    is only ever at the first position.
    """

    @classmethod
    def build_decoder(cls, args: Any, tgt_dict: Any, embed_tokens: Any) -> Any:
        """fairseq's decoder, its product with the vocabulary with a bias [V]."""
        decoder = super().build_decoder(args, tgt_dict, embed_tokens)
        decoder.output_projection.bias = nn.Parameter(torch.zeros(len(tgt_dict)))
        return decoder


@register_model_architecture("marian_transformer", "marian_transformer")
def marian_transformer(args: Any) -> None:
    """The defaults of Marian's ``transformer-base``."""
    args.activation_fn = getattr(args, "activation_fn", "swish")
    args.encoder_learned_pos = getattr(args, "encoder_learned_pos", True)
    args.decoder_learned_pos = getattr(args, "decoder_learned_pos", True)
    base_architecture(args)
