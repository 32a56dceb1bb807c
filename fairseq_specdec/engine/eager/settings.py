"""Every setting of fairseq's Transformer, and what the engine does with it.

``parts`` finds the modules that a setting adds. A setting may also change what the same modules
compute, so each is classified here. A setting of a later fairseq is refused where it is used.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

from fairseq.models.transformer import TransformerConfig

from fairseq_specdec.errors import UsageError

RUN = "run"
REFUSED = "refused"
TRAINING = "training only"
UNUSED = "unused"

# Nested fields as "decoder.layers"; both sides' together as "*.layers".
_FATES: dict[str, str] = {
    "activation_fn": RUN,
    "dropout": TRAINING,
    "attention_dropout": TRAINING,
    "activation_dropout": TRAINING,
    "relu_dropout": TRAINING,
    "adaptive_input": UNUSED,
    "*.embed_path": TRAINING,
    "*.embed_dim": RUN,
    "*.ffn_embed_dim": RUN,
    "*.layers": RUN,
    "*.attention_heads": RUN,
    "*.normalize_before": RUN,
    "*.learned_pos": RUN,
    "*.layerdrop": TRAINING,
    "*.layers_to_keep": RUN,
    "*.xformers_att_config": REFUSED,
    "decoder.input_dim": UNUSED,
    "decoder.output_dim": RUN,
    "max_source_positions": RUN,
    "max_target_positions": RUN,
    "share_decoder_input_output_embed": RUN,
    "share_all_embeddings": RUN,
    "merge_src_tgt_embed": RUN,
    "no_token_positional_embeddings": RUN,
    "adaptive_softmax_cutoff": REFUSED,
    "adaptive_softmax_dropout": UNUSED,
    "adaptive_softmax_factor": UNUSED,
    "tie_adaptive_weights": UNUSED,
    "tie_adaptive_proj": UNUSED,
    "layernorm_embedding": RUN,
    "no_scale_embedding": RUN,
    "checkpoint_activations": TRAINING,
    "offload_activations": TRAINING,
    "no_cross_attention": RUN,
    "cross_self_attention": REFUSED,
    "quant_noise.pq": RUN,
    "quant_noise.pq_block_size": TRAINING,
    "quant_noise.scalar": REFUSED,
    "min_params_to_wrap": TRAINING,
    "char_inputs": UNUSED,
    "base_layers": REFUSED,
    "base_sublayers": UNUSED,
    "base_shuffle": UNUSED,
    "export": RUN,
    "no_decoder_final_norm": RUN,
    # Read by fairseq's layers, but no fields of its configuration.
    "scale_attn": REFUSED,
    "scale_fc": REFUSED,
    "scale_heads": REFUSED,
    "scale_resids": REFUSED,
}


def _of_both_sides() -> Iterator[tuple[str, str]]:
    for name, fate in _FATES.items():
        for side in ("encoder", "decoder") if name.startswith("*") else ("",):
            yield name.replace("*", side), fate


FATES: dict[str, str] = dict(_of_both_sides())
"""Name of a setting, nested as ``decoder.layers``, to ``RUN`` (the engine computes it), ``REFUSED``
(where it is used), ``TRAINING`` (nothing of it is left in decoding) or ``UNUSED`` (fairseq's
Transformer does not read it, or does only with a setting that is refused)."""


def flag_of(setting: str) -> str:
    """``decoder.output_dim`` as a user writes it: ``--decoder-output-dim``."""
    return "--" + setting.replace(".", "-").replace("_", "-")


def fields() -> dict[str, Any]:
    """The settings of this fairseq's Transformer by name, and their defaults."""
    defaults: dict[str, Any] = {}
    for field in dataclasses.fields(TransformerConfig):
        if dataclasses.is_dataclass(field.type):
            for inner in dataclasses.fields(field.type):
                defaults[f"{field.name}.{inner.name}"] = inner.default
        else:
            defaults[field.name] = field.default
    return {name: default for name, default in defaults.items() if not name.endswith("_name")}


def check_settings(cfg: Any, name: str) -> None:
    """Refuse a setting that the engine does not know, where it is not at its default. Raises
    ValueError: names the flag."""
    for setting, default in fields().items():
        if setting in FATES:
            continue
        value = cfg
        for part in setting.split("."):
            value = getattr(value, part)
        if value != default:
            raise UsageError(
                name,
                f"the model uses {flag_of(setting)} {value}, which this release of "
                "fairseq_specdec does not know",
                "decode with --task translation",
            )
