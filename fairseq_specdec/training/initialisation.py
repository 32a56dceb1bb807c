"""Start a drafter from a verifier's weights (Xia et al. 2023, section 3.1 and 6: the encoder).

Whatever is copied is checked first, and a report lists what was copied and what was not. An encoder
deeper than the verifier's computes the same function at first: the verifier's layers are spread
evenly, and the layers between them start as the identity, which a pre-norm layer is when the last
matrix of each of its two residual branches is zero. Learned positions start as the verifier's
sinusoids. As in the authors' training script, a drafter with GELU may start from a verifier with
ReLU, though its layers then compute something else.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.models.speech_to_text import S2TTransformerModel
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer.transformer_base import TransformerModelBase
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from torch import nn

from fairseq_specdec.checkpoints.verifier import Dictionaries, load_models
from fairseq_specdec.errors import MissingFileError, UsageError

from .layers import decoder_layers, growth_plan

logger = logging.getLogger(__name__)


@dataclass
class Report:
    """What was done to a drafter: names of its modules, in order."""

    source: str
    copied: list[str] = field(default_factory=list)
    identity: list[str] = field(default_factory=list)
    fresh: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.source}: copied {', '.join(self.copied)}; "
            f"set to the identity: {', '.join(self.identity) or 'none'}; "
            f"left as initialised at random: {', '.join(self.fresh) or 'none'}"
        )


def start_as_bert(model: Any) -> None:
    """Draw a drafter's weights anew as BERT's (``--apply-bert-init``), in place: normal with a
    deviation of 0.02, biases 0. A chain stays as it is: it contributes nothing at first."""
    decoder = model.decoder
    for part in (model.encoder, *decoder.children()):
        if part is not decoder.chain:
            part.apply(init_bert_params)
    nn.init.normal_(decoder.mask_embedding, std=0.02)


def initialise(model: Any, cfg: Any, source: Any, target: Any) -> list[Report]:
    """Copy what ``cfg`` asks for from verifier checkpoints into a freshly built drafter.

    Args:
        model: a ``SpecDrafter``, changed in place.
        cfg: its ``SpecDrafterConfig``: ``init_encoder_from`` (encoder layers, source embeddings),
            ``init_decoder_from`` (decoder layers, target embeddings, output projection) and
            ``init_decoder_layers``.
        source, target: the drafter's dictionaries.

    Returns:
        One report for each flag given, as logged.

    Raises:
        ValueError: a file that holds no transformer, or settings or dictionaries that differ; the
            message names the flag, both values and the remedy.
        FileNotFoundError: no such file.
    """
    reports = []
    verifiers: dict[str, TransformerModelBase] = {}
    for flag, path, part in (
        ("--init-encoder-from", cfg.init_encoder_from, _copy_encoder),
        ("--init-decoder-from", cfg.init_decoder_from, _copy_decoder),
    ):
        if not path:
            continue
        if path not in verifiers:
            verifiers[path] = load_verifier(flag, path, source, target)
        reports.append(Report(f"{flag} {path}"))
        _check_shared(reports[-1].source, cfg, verifiers[path])
        with torch.no_grad():
            part(model, verifiers[path], cfg, reports[-1])
    known = [f"{name}." for report in reports for name in report.copied + report.identity]
    fresh = [n for n, _ in model.named_parameters() if not f"{n}.".startswith(tuple(known))]
    for report in reports:
        report.fresh = fresh
        logger.info(str(report))
    return reports


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


def _require_equal(flag: str, name: str, ours: Any, theirs: Any) -> None:
    if ours != theirs:
        option = "--" + name.replace("_", "-")
        remedy = f"pass {option} {theirs}"
        if isinstance(theirs, bool):
            remedy = f"pass {option}" if theirs else f"leave out {option}"
        raise UsageError(flag, f"its {name} is {theirs}, the drafter's {ours}", remedy)


def _check_shared(flag: str, cfg: Any, verifier: TransformerModelBase) -> None:
    """Settings that change what the same weights compute, on both sides."""
    theirs = TransformerConfig.from_namespace(verifier.decoder.cfg)
    activations = _plain(cfg.activation_fn), _plain(theirs.activation_fn)
    if activations == ("gelu", "relu"):
        logger.warning(
            "%s: it has ReLU, the drafter GELU: copied layers do not compute what they did", flag
        )
    else:
        _require_equal(flag, "activation_fn", *activations)
    for name in ("layernorm_embedding", "no_scale_embedding", "no_token_positional_embeddings"):
        _require_equal(flag, name, _plain(getattr(cfg, name)), _plain(getattr(theirs, name)))
    if cfg.share_all_embeddings and not theirs.share_all_embeddings:
        raise UsageError(
            flag,
            "its source and target embeddings differ, and --share-all-embeddings makes the "
            "drafter's one",
            "leave out --share-all-embeddings",
        )


def _plain(value: Any) -> Any:
    """An enumeration's value: settings from flags are strings, from dataclasses members."""
    return getattr(value, "value", value)


def _check_layers(flag: str, side: str, ours: Any, theirs: Any) -> None:
    shape = ("embed_dim", "ffn_embed_dim", "attention_heads")
    learned = getattr(theirs, side).learned_pos
    for name in shape + ("normalize_before",) + (("learned_pos",) if learned else ()):
        value, other = getattr(getattr(ours, side), name), getattr(getattr(theirs, side), name)
        _require_equal(flag, f"{side}_{name}", value, other)


def _copy_module(ours: nn.Module | None, theirs: nn.Module | None, name: str, to: Report) -> None:
    """Copy a module that both or neither have; parameters of equal shapes."""
    if ours is None or theirs is None:
        return
    ours.load_state_dict(theirs.state_dict(), strict=True)
    to.copied.append(name)


def _copy_positions(ours: Any, theirs: Any, name: str, to: Report) -> None:
    """Copy a table to a learned one, as far as both go; sinusoids need no copy."""
    if isinstance(ours, nn.Embedding) and theirs is not None:
        table = theirs.weight if isinstance(theirs, nn.Embedding) else theirs.weights
        rows = min(len(ours.weight), len(table))
        ours.weight[:rows] = table[:rows]
        to.copied.append(name)


def _copy_encoder(model: Any, verifier: TransformerModelBase, cfg: Any, report: Report) -> None:
    ours, theirs = model.encoder, verifier.encoder
    _check_layers(report.source, "encoder", cfg, theirs.cfg)
    here, there = len(ours.layers), len(theirs.layers)
    if here > there and not cfg.encoder.normalize_before:
        raise UsageError(
            report.source,
            f"it has {there} encoder layers, the drafter {here}, and both are post-norm: "
            "added layers can start as the identity only with pre-norm. Pass "
            f"--encoder-layers {there}, or use a verifier trained with "
            "--encoder-normalize-before",
        )
    _copy_module(ours.embed_tokens, theirs.embed_tokens, "encoder.embed_tokens", report)
    if model.decoder.embed_tokens is ours.embed_tokens:
        report.copied += ["decoder.embed_tokens", "decoder.output_projection"]
    elif not cfg.init_decoder_from:
        logger.info("%s: the target embeddings are not taken", report.source)
    _copy_positions(ours.embed_positions, theirs.embed_positions, "encoder.embed_positions", report)
    norm = "encoder.layernorm_embedding"
    _copy_module(ours.layernorm_embedding, theirs.layernorm_embedding, norm, report)
    _copy_module(ours.layer_norm, theirs.layer_norm, "encoder.layer_norm", report)
    for index, (origin, is_copy) in enumerate(growth_plan(there, here)):
        name = f"encoder.layers.{index}"
        ours.layers[index].load_state_dict(theirs.layers[origin].state_dict(), strict=True)
        if is_copy:
            report.copied.append(name)
        else:
            layer = ours.layers[index]
            for last in (layer.self_attn.out_proj, layer.fc2):  # a pre-norm layer is the identity
                last.weight.data.zero_()
                last.bias.data.zero_()
            report.identity.append(name)


def _copy_decoder(model: Any, verifier: TransformerModelBase, cfg: Any, report: Report) -> None:
    ours, theirs = model.decoder, verifier.decoder
    _check_layers(report.source, "decoder", cfg, theirs.cfg)
    _require_equal(
        report.source, "no_decoder_final_norm", ours.layer_norm is None, theirs.layer_norm is None
    )
    if theirs.output_projection is None:
        raise UsageError(
            report.source, "it has an adaptive softmax, which a drafter cannot take over"
        )
    own = not cfg.verifier_embeddings
    if own and ours.share_input_output_embed and not theirs.share_input_output_embed:
        raise UsageError(
            report.source,
            "its output projection differs from its target embeddings",
            "leave out --share-decoder-input-output-embed and --share-all-embeddings",
        )
    layers = decoder_layers(cfg.init_decoder_layers, len(theirs.layers), len(ours.layers))
    for name in ("embed_tokens", "output_projection") if own else ():
        # The bias of Marian's output is left: a drafter has none.
        getattr(ours, name).weight.copy_(getattr(theirs, name).weight)
        report.copied.append(f"decoder.{name}")
    _copy_positions(ours.embed_positions, theirs.embed_positions, "decoder.embed_positions", report)
    norm = "decoder.layernorm_embedding"
    _copy_module(ours.layernorm_embedding, theirs.layernorm_embedding, norm, report)
    _copy_module(ours.layer_norm, theirs.layer_norm, "decoder.layer_norm", report)
    for index, origin in enumerate(layers):
        _copy_module(ours.layers[index], theirs.layers[origin], f"decoder.layers.{index}", report)
