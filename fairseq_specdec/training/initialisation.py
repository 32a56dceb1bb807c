"""Start a drafter from a verifier's weights (Xia et al. 2023, section 3.1 and 6: the encoder).

Whatever is copied is checked first, and the log lists what was copied and what was not. An encoder
deeper than the verifier's computes the same function at first: the verifier's layers are spread
evenly, and the layers between them start as the identity, which a pre-norm layer is when the last
matrix of each of its two residual branches is zero. Learned positions start as the verifier's
sinusoids. As in the authors' training script, a drafter with GELU may start from a verifier with
ReLU, though its layers then compute something else.
"""

from __future__ import annotations

import logging
import os
from typing import Any

import torch
from fairseq.models.speech_to_text import S2TTransformerModel
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer.transformer_base import TransformerModelBase
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from torch import nn

from fairseq_specdec.checkpoints.verifier import Dictionaries, load_models
from fairseq_specdec.errors import MissingFileError, UsageError

from ..io.flag_values import flag_of
from .layers import decoder_layers, growth_plan

logger = logging.getLogger(__name__)


def start_as_bert(model: Any) -> None:
    """Draw a drafter's weights anew as BERT's (``--apply-bert-init``), in place: normal with a
    deviation of 0.02, biases 0. A chain stays as it is: it contributes nothing at first."""
    decoder = model.decoder
    for part in (model.encoder, *decoder.children()):
        if part is not decoder.chain:
            part.apply(init_bert_params)
    nn.init.normal_(decoder.mask_embedding, std=0.02)


def initialise(model: Any, cfg: Any, source: Any, target: Any) -> None:
    """Copy what ``cfg`` names from verifier checkpoints into a freshly built drafter, and log
    what was copied.

    Args:
        model: a ``SpecDrafter``, changed in place.
        cfg: its ``SpecDrafterConfig``: ``init_encoder_from`` (encoder layers, source embeddings),
            ``init_decoder_from`` (decoder layers, target embeddings, output projection) and
            ``init_decoder_layers``.
        source, target: the drafter's dictionaries.

    Raises:
        UsageError: a file that is missing or holds no transformer, or settings or dictionaries that
            differ; the message names the flag, both values and the remedy.
    """
    verifiers: dict[str, TransformerModelBase] = {}
    made: dict[str, bool] = {}  # modules by name: whether each is a copy, or else the identity
    flags = []
    for side, path in (("encoder", cfg.init_encoder_from), ("decoder", cfg.init_decoder_from)):
        if path:
            flag = f"--init-{side}-from"
            if path not in verifiers:
                verifiers[path] = load_verifier(flag, path, source, target)
            flags.append(f"{flag} {path}")
            _check_settings(flags[-1], side, cfg, getattr(verifiers[path], side).cfg)
            with torch.no_grad():
                made.update(_copy(flags[-1], side, model, verifiers[path], cfg))
    if flags:
        known = tuple(f"{name}." for name in made)
        fresh = [name for name, _ in model.named_parameters() if not f"{name}.".startswith(known)]
        logger.info(
            "%s: copied %s; set to the identity: %s; left as initialised at random: %s",
            ", ".join(flags), ", ".join(name for name in made if made[name]),
            ", ".join(name for name in made if not made[name]) or "none",
            ", ".join(fresh) or "none",
        )  # fmt: skip


def load_verifier(flag: str, path: str, source: Any, target: Any) -> TransformerModelBase:
    """The transformer that a checkpoint holds, on the CPU. ``source`` and ``target``: dictionaries
    that it must have been trained with (their sizes are checked); no source of a verifier that
    reads speech."""
    if not os.path.isfile(path):
        raise MissingFileError(
            flag,
            f"no file {path}. (To resume a run whose verifier is gone, leave the flag out: "
            "all weights come from the run's own checkpoint.)",
        )
    (verifier,), _ = load_models(flag, [path], Dictionaries(source, target))
    kind = TransformerModelBase if source is not None else S2TTransformerModel
    if not isinstance(verifier, kind):
        raise UsageError(
            flag, f"{path} holds a {type(verifier).__name__}", "give a transformer, as the verifier"
        )
    return verifier.eval()


def _check_settings(flag: str, side: str, cfg: Any, theirs: Any) -> None:
    """Refuse settings with which the same weights compute something else, or do not fit."""
    theirs = TransformerConfig.from_namespace(theirs)
    names = ["layernorm_embedding", "no_scale_embedding", "no_token_positional_embeddings"]
    sizes = ("embed_dim", "ffn_embed_dim", "attention_heads", "normalize_before")
    names += [f"{side}_{name}" for name in sizes]
    if getattr(theirs, side).learned_pos:  # sinusoids can become a learned table, not vice versa
        names.append(f"{side}_learned_pos")
    if (str(cfg.activation_fn), str(theirs.activation_fn)) == ("gelu", "relu"):
        logger.warning(
            "%s: it has ReLU, the drafter GELU: copied layers do not compute what they did", flag
        )
    else:
        names.insert(0, "activation_fn")
    for name in names:
        # An enumeration's value: settings from flags are strings, from dataclasses members.
        ours, other = getattr(cfg, name), getattr(theirs, name)
        _require_equal(flag, name, getattr(ours, "value", ours), getattr(other, "value", other))
    if cfg.share_all_embeddings and not theirs.share_all_embeddings:
        problem = "its source and target embeddings differ, and --share-all-embeddings makes the "
        raise UsageError(flag, problem + "drafter's one", "leave out --share-all-embeddings")


def _require_equal(flag: str, name: str, ours: Any, theirs: Any) -> None:
    if ours != theirs:
        option = flag_of(name)
        remedy = f"pass {option} {theirs}"
        if isinstance(theirs, bool):
            remedy = f"pass {option}" if theirs else f"leave out {option}"
        raise UsageError(flag, f"its {name} is {theirs}, the drafter's {ours}", remedy)


def _copy(
    flag: str, side: str, model: Any, verifier: TransformerModelBase, cfg: Any
) -> dict[str, bool]:
    """Copy the embeddings, positions, norms and layers of an encoder or a decoder. Returns the
    modules by name, and whether each is a copy."""
    ours, theirs = getattr(model, side), getattr(verifier, side)
    here, there = len(ours.layers), len(theirs.layers)
    names = ["embed_tokens", "layernorm_embedding", "layer_norm"]
    if side == "encoder":
        plan = growth_plan(there, here)
        if here > there and not cfg.encoder.normalize_before:
            raise UsageError(
                flag,
                f"it has {there} encoder layers, the drafter {here}, and both are post-norm: "
                "added layers can start as the identity only with pre-norm. Pass "
                f"--encoder-layers {there}, or use a verifier trained with "
                "--encoder-normalize-before",
            )
    else:
        plan = [(layer, True) for layer in decoder_layers(cfg.init_decoder_layers, there, here)]
        normless = (each.layer_norm is None for each in (ours, theirs))
        _require_equal(flag, "no_decoder_final_norm", *normless)
        if cfg.verifier_embeddings:
            names.remove("embed_tokens")
        elif ours.share_input_output_embed and not theirs.share_input_output_embed:
            raise UsageError(
                flag,
                "its output projection differs from its target embeddings",
                "leave out --share-decoder-input-output-embed and --share-all-embeddings",
            )
        else:
            names.append("output_projection")
    made = {}
    for name in names:
        if getattr(ours, name) is not None and getattr(theirs, name) is not None:
            # Marian's output has a bias, which a drafter has not
            getattr(ours, name).load_state_dict(getattr(theirs, name).state_dict(), strict=False)
            made[f"{side}.{name}"] = True
    positions = theirs.embed_positions
    if isinstance(ours.embed_positions, nn.Embedding) and positions is not None:
        # A learned table, as far as both go; sinusoids need no copy.
        table = positions.weight if isinstance(positions, nn.Embedding) else positions.weights
        rows = min(len(ours.embed_positions.weight), len(table))
        ours.embed_positions.weight[:rows] = table[:rows]
        made[f"{side}.embed_positions"] = True
    for index, (origin, is_copy) in enumerate(plan):
        layer = ours.layers[index]
        layer.load_state_dict(theirs.layers[origin].state_dict())
        for last in () if is_copy else (layer.self_attn.out_proj, layer.fc2):
            last.weight.data.zero_()
            last.bias.data.zero_()
        made[f"{side}.layers.{index}"] = is_copy
    if side == "encoder" and model.decoder.embed_tokens is ours.embed_tokens:
        made.update({"decoder.embed_tokens": True, "decoder.output_projection": True})
    return made
