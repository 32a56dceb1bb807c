"""A drafter that reads its verifier's hidden states: ``--arch attached_drafter_base``.

The papers' drafter has its own encoder and computes its own states of the accepted tokens. This one
uses what the verifier computed: its decoder attends to the verifier's encoder output, and prefix
and masks start from the decoder states of the last verification. It has no encoder to train, to
store or to run, and the verifier is not changed. Blockwise heads read the verifier's states too
(Stern et al. 2018, section 6); here they feed the block decoder of Ge et al. 2022 and Xia et al.
2023.
"""

from typing import Any

import torch
from fairseq.models import register_model
from fairseq.models.transformer.transformer_base import TransformerModelBase
from torch import Tensor

from fairseq_specdec.errors import UsageError

from ..checkpoints.content import set_setting
from ..io.flag_values import numbers
from ..training.initialisation import initialise, load_verifier
from .block_decoder import BlockDecoder
from .drafter_config import (
    BASE,
    BIG,
    SpecDrafterConfig,
    check_config,
    drafter_config,
    forget_start,
    register_architectures,
)
from .spec_drafter import SMALLEST, SpecDrafter
from .verifier_states import VerifierReader, layers_at_thirds
from .verifier_tables import TABLES, VerifierTable, why_not


@register_model("attached_drafter")
class AttachedDrafter(SpecDrafter):
    """Drafts the next k tokens in parallel from the hidden states of one verifier."""

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "AttachedDrafter":
        """Build a drafter, and for training attach the verifier that the settings name.

        The layers that it reads are chosen here and kept in ``args``, which becomes the
        checkpoint's model settings; the verifier's file name is not kept.
        """
        cfg = drafter_config(args)
        check_config(cfg, attached=True)
        source, target = task.source_dictionary, task.target_dictionary
        verifier = None
        if cfg.attach_to:
            verifier = load_verifier("--attach-to", cfg.attach_to, source, target)
            _settle_verifier(cfg, verifier, len(target))
        if not cfg.read_layers:
            raise UsageError(
                "--attach-to", "an attached_drafter needs its verifier's checkpoint for training"
            )
        layers = read_layers(cfg.read_layers)
        dim = cfg.decoder.embed_dim
        # One table of its own: there is no encoder to share it with.
        cfg.share_decoder_input_output_embed = (
            cfg.share_decoder_input_output_embed or cfg.share_all_embeddings
        )
        widths, projection = (len(layers), dim), None
        if cfg.verifier_embeddings:
            table, projection = (
                VerifierTable(target.pad(), dim, verifier and getattr(verifier.decoder, name))
                for name in TABLES
            )
        else:
            table = TransformerModelBase.build_embedding(cfg, target, dim, cfg.decoder.embed_path)
        decoder = BlockDecoder(cfg, target, table, None, widths, projection)
        model = cls(cfg, VerifierReader(source, layers), decoder)
        if cfg.init_decoder_from:
            initialise(model, cfg, source, target)
        if verifier is not None:
            model.encoder.attach(verifier)
        forget_start(args, cfg)
        set_setting(args, read_layers=cfg.read_layers)
        return model

    def read(
        self, src_tokens: Tensor, src_lengths: Tensor, prev_output_tokens: Tensor
    ) -> tuple[Any, Tensor | None, Tensor | None]:
        """The verifier's encoder output, the states that predicted each token, the last layer's.

        Returns:
            The encoder's output; [B, T, n C], whose entry t holds the states that predicted the
            token at position t; [B, T, C], whose entry t predicts the token after position t.
        """
        like = self.decoder.mask_embedding
        encoder_out, states, final = self.encoder.read(
            src_tokens, src_lengths, prev_output_tokens, like.detach()
        )
        nothing = torch.zeros_like(states[:, :1])
        return encoder_out, torch.cat([nothing, states[:, :-1]], 1), final


def read_layers(asked: str) -> list[int]:
    """The numbers of ``--read-layers``, ascending."""
    return sorted(numbers(str(asked).strip("[]() "), "--read-layers"))


def _settle_verifier(cfg: SpecDrafterConfig, verifier: Any, words: int) -> None:
    """Refuse a verifier that a drafter of these settings cannot read, and set ``read_layers`` where
    the flag was not given. ``words``: of the target dictionary."""
    decoder, tables = verifier.decoder, cfg.verifier_embeddings
    cfg.read_layers = cfg.read_layers or ",".join(map(str, layers_at_thirds(len(decoder.layers))))
    width, layers = cfg.decoder.embed_dim, read_layers(cfg.read_layers)
    reason = why_not(verifier, width, layers[-1], words if tables else None)
    if tables and not reason and (decoder.embed_scale == 1.0) != cfg.no_scale_embedding:
        reason = "scales its embeddings otherwise (--no-scale-embedding)"
    if reason:
        raise UsageError(
            f"--attach-to {cfg.attach_to}",
            f"the verifier {reason}, and the drafter has --encoder-embed-dim {width}, "
            f"--read-layers {cfg.read_layers}{', --verifier-embeddings' * tables}",
            "give settings that fit the verifier, or train a spec_drafter",
        )


SHALLOW = {"encoder_layers": 6, "decoder_layers": 2}
register_architectures("attached_drafter", SpecDrafterConfig, {
    "attached_drafter": {**BASE, **SHALLOW},
    "attached_drafter_base": {**BASE, **SHALLOW},
    "attached_drafter_big": {**BIG, **SHALLOW},
    "attached_drafter_tiny": SMALLEST,  # for tests and demonstrations
})  # fmt: skip
