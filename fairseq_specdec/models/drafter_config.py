"""A drafter's settings: fairseq's transformer settings, and what makes a drafter of them."""

import contextlib
import functools
from argparse import Namespace
from dataclasses import dataclass, field
from typing import Any, Optional, TypeVar

from fairseq import utils
from fairseq.dataclass import ChoiceEnum
from fairseq.models import register_model_architecture
from fairseq.models.transformer import TransformerConfig
from omegaconf import OmegaConf, open_dict

from fairseq_specdec.checkpoints.architectures import built_from
from fairseq_specdec.checkpoints.content import get_setting, set_setting
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.flag_values import AT_LEAST_0, AT_LEAST_1, Range, check_flags, flag

C = TypeVar("C", bound=TransformerConfig)
# fairseq runs swish, which Marian's models have, and names it in no list.
_ACTIVATIONS = [*utils.get_available_activation_fns(), "swish"]


@dataclass
class SpecDrafterConfig(TransformerConfig):
    """Fields become flags: ``block_size`` is ``--block-size``."""

    activation_fn: ChoiceEnum(_ACTIVATIONS) = field(  # type: ignore[valid-type]
        default="relu", metadata={"help": "activation function to use"}
    )
    block_size: int = flag(25, "tokens drafted at once (k in the papers)", AT_LEAST_1)
    num_cuts: int = flag(
        1,
        "random prefixes of each sentence that share one pass in training; 1 is the papers' scheme",
        AT_LEAST_1,
    )
    bidirectional_prefix: bool = flag(
        False,
        "let the prefix attend to itself and the block in both directions, as in the "
        "papers; its states can then not be cached in decoding (needs --num-cuts 1)",
    )
    source_copy: bool = flag(False, "start the masks from a soft copy of the source's embeddings")
    chain_width: int = flag(
        0,
        "width of the recurrent network by which a drafted token depends on those "
        "drafted before it; 0 drafts all tokens of a block independently, as the papers",
        AT_LEAST_0,
    )
    chain_dropout: float = flag(
        0.1,
        "share of the blocks that training leaves without the chain, so that the masks "
        "alone still find the candidates that the chain chooses among",
        Range(0, 1, below=True),
    )
    attach_to: Optional[str] = flag(
        None,
        "attached_drafter: checkpoint of the verifier whose states it reads; needed in "
        "training only",
    )
    read_layers: Optional[str] = flag(
        None,
        "attached_drafter: the verifier's decoder layers to read, counted from 1, as in '2,4,6'",
        otherwise="a third, two thirds, all of the way up",
    )
    verifier_embeddings: bool = flag(
        False,
        "attached_drafter: embed and choose words by the verifier's own tables, which are neither "
        "trained nor stored",
    )
    apply_bert_init: bool = flag(
        False, "draw the weights as BERT's, normal with a deviation of 0.02, as the papers' authors"
    )
    init_encoder_from: Optional[str] = flag(
        None, "checkpoint whose encoder and embeddings the drafter starts from"
    )
    init_decoder_from: Optional[str] = flag(
        None, "checkpoint whose decoder layers and embeddings the drafter starts from"
    )
    init_decoder_layers: Optional[str] = flag(
        None,
        "which layers --init-decoder-from takes, as in '0,5'",
        otherwise="spread evenly from the first to the last",
    )


def structured(kind: type[C], args: Any) -> C:
    """One config of ``kind`` from what fairseq gives: flags, a YAML or a checkpoint's."""
    if isinstance(args, kind):
        return args
    if OmegaConf.is_config(args):
        args = Namespace(**OmegaConf.to_container(args, resolve=True))
    return kind.from_namespace(args)


# What training starts from: a checkpoint holds all weights, and does not name these files.
_START = ("attach_to", "init_encoder_from", "init_decoder_from", "init_decoder_layers")


def forget_start(*settings: Any) -> None:
    """Empty, in place, the settings of what training starts from."""
    for each in settings:
        set_setting(each, **dict.fromkeys(_START))


def drafter_config(args: Any) -> SpecDrafterConfig:
    """A drafter's settings as fairseq gives them.

    A checkpoint holds all weights: the files that its settings name are those of its training, and
    are not opened.
    """
    cfg = structured(SpecDrafterConfig, args)
    if built_from() is not None:
        forget_start(cfg)
        cfg.encoder.embed_path = cfg.decoder.embed_path = None
        cfg.apply_bert_init = False
    return cfg


def check_config(cfg: SpecDrafterConfig, attached: bool = False) -> None:
    """Refuse what no drafter can be, by the flag. ``attached``: it reads its verifier instead of an
    encoder of its own."""
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
        "--verifier-embeddings": cfg.verifier_embeddings and not attached,
        "--source-copy": cfg.source_copy and attached,
        "--bidirectional-prefix": cfg.bidirectional_prefix and attached,
        "--apply-bert-init": cfg.apply_bert_init and attached,
        "--init-encoder-from": bool(cfg.init_encoder_from) and attached,
    }
    for name in filter(unsupported.get, unsupported):
        model = "an attached_drafter" if attached else "a spec_drafter"
        raise UsageError(name, f"{model} does not support it", "leave it out")
    check_flags(cfg, SpecDrafterConfig)
    widths = cfg.encoder.embed_dim, cfg.decoder.embed_dim, int(cfg.decoder.output_dim)
    for refused, *words in (
        (cfg.bidirectional_prefix and cfg.num_cuts != 1,
         "--bidirectional-prefix computes the prefix anew for every cut, but --num-cuts "
         f"is {cfg.num_cuts}",
         "use --num-cuts 1, or leave out --bidirectional-prefix"),
        (widths[0] != widths[1],
         f"--encoder-embed-dim is {widths[0]}, --decoder-embed-dim {widths[1]}",
         "a drafter needs them equal"),
        (widths[2] != widths[1],
         "--decoder-output-dim", "a drafter needs it equal --decoder-embed-dim"),
        (cfg.source_copy and cfg.no_token_positional_embeddings,
         "--source-copy finds source words by position",
         "leave out --no-token-positional-embeddings"),
        (cfg.init_decoder_layers and not cfg.init_decoder_from,
         "--init-decoder-layers", "needs --init-decoder-from"),
        (cfg.decoder.layers < 1,
         f"--decoder-layers {cfg.decoder.layers}", "a drafter needs 1 or more"),
        (cfg.verifier_embeddings and cfg.decoder.embed_path,
         "--decoder-embed-path", "--verifier-embeddings takes the verifier's", "choose"),
    ):  # fmt: skip
        if refused:
            raise UsageError(*words)


def set_architecture(kind: type[TransformerConfig], args: Any, **shape: Any) -> None:
    """Fill in from the architecture what neither a flag nor the YAML sets.

    Flat settings (``encoder_embed_dim``) and a YAML's nested ones (``encoder: {embed_dim: ..}``)
    mean the same: nested ones are flattened first, in place.

    Args:
        kind: the model's settings, whose own fields have their default where nothing sets them.
        args: flags (a Namespace) or a YAML's settings (a DictConfig), changed in place.
        shape: ``embed_dim``, ``ffn_embed_dim`` and ``attention_heads`` of both sides, and any other
            setting by its flat name.
    """
    for part in ("encoder", "decoder", "quant_noise"):
        nested = get_setting(args, part)
        if nested is not None:
            set_setting(args, **{f"{part}_{name}": nested[name] for name in nested})
            with open_dict(args) if OmegaConf.is_config(args) else contextlib.nullcontext():
                delattr(args, part)

    def default(name: str, value: Any) -> Any:
        if get_setting(args, name) is None:
            set_setting(args, **{name: value})
        return get_setting(args, name)

    for name in ("attention_heads", "ffn_embed_dim", "embed_dim"):
        width = default(f"decoder_{name}", default(f"encoder_{name}", shape.pop(name)))
    own = kind.__dataclass_fields__.keys() - TransformerConfig.__dataclass_fields__.keys()
    for name, value in {
        "decoder_input_dim": width,
        "decoder_output_dim": width,
        "max_source_positions": TransformerConfig.max_source_positions,
        "max_target_positions": TransformerConfig.max_target_positions,
        "base_layers": 0,  # the trainer compares it with 0
        **shape,
        **{name: getattr(kind, name) for name in own},
    }.items():
        default(name, value)


BASE = {"embed_dim": 512, "ffn_embed_dim": 2048, "attention_heads": 8}
BIG = {"embed_dim": 1024, "ffn_embed_dim": 4096, "attention_heads": 16}
TINY = {"embed_dim": 64, "ffn_embed_dim": 128, "attention_heads": 2}
BALANCED = {"encoder_layers": 6, "decoder_layers": 6}


def register_architectures(
    model: str, kind: type[TransformerConfig], shapes: dict[str, dict[str, Any]]
) -> None:
    """Register the architectures of a model, by their names."""
    for name, shape in shapes.items():
        settle = functools.partial(set_architecture, kind, **shape)
        register_model_architecture(model, name)(settle)
