"""A verifier that can be its own small model: ``--arch early_exit_transformer``.

The first n decoder layers and the whole decoder share one prediction head (the final norm, where
there is one, and the output projection), and both are trained to predict: Kim et al., section 4.4
and 7.2.1. The parameters are those of fairseq's Transformer, so a trained Transformer is a start
(``fairseq-train --finetune-from-model``) and the whole decoder decodes like any other verifier.
"""

from typing import Any

from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer import TransformerModel
from fairseq.models.transformer.transformer_legacy import (
    base_architecture,
    tiny_architecture,
    transformer_iwslt_de_en,
    transformer_wmt_en_de_big,
)

from fairseq_specdec.errors import UsageError


@register_model("early_exit_transformer")
class EarlyExitTransformer(TransformerModel):
    """A Transformer whose first ``exit_layer`` decoder layers share the head with all of them.

    Attributes:
        exit_layer: n, the layers of the small model.
    """

    exit_layer = 1

    @classmethod
    def add_args(cls, parser: Any) -> None:
        super().add_args(parser)
        parser.add_argument(
            "--exit-layer",
            type=int,
            metavar="N",
            help="the small model is the first N decoder layers (default: 1, as in the paper)",
        )

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "EarlyExitTransformer":
        """Build a model. Raises ValueError: ``--exit-layer`` names no layer below the last, or a
        flag changes what the layers are from step to step or what the head is."""
        if getattr(args, "exit_layer", None) is None:
            args.exit_layer = 1
        for name, unused in (("decoder_layerdrop", 0), ("adaptive_softmax_cutoff", None)):
            if getattr(args, name, unused) not in (unused, None):
                flag = "--" + name.replace("_", "-")
                raise UsageError(flag, "not for an early_exit_transformer", "leave it out")
        model: EarlyExitTransformer = super().build_model(args, task)
        layers, model.exit_layer = len(model.decoder.layers), args.exit_layer
        if layers < 2:
            raise UsageError(
                f"--decoder-layers {layers}", "an early exit needs 2 decoder layers or more"
            )
        if not 1 <= model.exit_layer < layers:
            raise UsageError(
                f"--exit-layer {model.exit_layer}",
                f"must be from 1 to {layers - 1}, fewer than --decoder-layers",
            )
        return model

    def forward(self, *args: Any, features_only: bool = False, **kwargs: Any) -> Any:
        """fairseq's forward pass, and the logits of the exit.

        Returns:
            As fairseq: logits [B, T, V] of the whole decoder, and what else there is; in it
            ``exit_logits`` [B, T, V], unless ``features_only``.
        """
        out, extra = super().forward(*args, features_only=features_only, **kwargs)
        if features_only:
            return out, extra
        states, decoder = extra["inner_states"][self.exit_layer], self.decoder
        if decoder.layer_norm is not None:
            states = decoder.layer_norm(states)
        states = states.transpose(0, 1)
        if decoder.project_out_dim is not None:
            states = decoder.project_out_dim(states)
        return out, {**extra, "exit_logits": decoder.output_layer(states)}


register_model_architecture("early_exit_transformer", "early_exit_transformer")(base_architecture)
for _name, _shape in (
    ("tiny", tiny_architecture),
    ("iwslt_de_en", transformer_iwslt_de_en),
    ("wmt_en_de_big", transformer_wmt_en_de_big),
):
    register_model_architecture("early_exit_transformer", f"early_exit_transformer_{_name}")(_shape)
