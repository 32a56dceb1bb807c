"""The drafter as fairseq registers it: ``--arch spec_drafter_base`` and others.

Deep encoder and shallow decoder (Xia et al. 2023, section 3.1: Spec-Drafter, 12+2) or the balanced
6+6 of Ge et al. 2022 (section 3.2).
"""

from typing import Any

import torch
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import FairseqEncoderDecoderModel, register_model
from fairseq.models.transformer.transformer_base import TransformerModelBase
from fairseq.models.transformer.transformer_encoder import TransformerEncoderBase
from torch import Tensor, nn

from fairseq_specdec.errors import UsageError

from ..training.block_noising import block_positions
from ..training.glancing import choose_revealed
from ..training.initialisation import initialise, start_as_bert
from .block_decoder import BlockDecoder, SoftSourceCopy
from .drafter_config import (
    BALANCED,
    BASE,
    BIG,
    TINY,
    SpecDrafterConfig,
    check_config,
    drafter_config,
    forget_start,
    register_architectures,
)
from .verifier_tables import shallow, with_tables
from .word_list import WordList


class _Flags(SpecDrafterConfig):
    """Without the flags that a task has too: not every task looks whether they are there before it
    adds them (``speech_to_text``, ``multilingual_translation``)."""

    def _get_all_attributes(self) -> list[str]:
        names: list[str] = super()._get_all_attributes()
        return [
            name for name in names if name not in ("max_source_positions", "max_target_positions")
        ]


@register_model("spec_drafter")
class SpecDrafter(FairseqEncoderDecoderModel):
    """Drafts the next k tokens in parallel from the source and an accepted prefix."""

    decoder_class: type[BlockDecoder] = BlockDecoder

    def __init__(
        self, cfg: SpecDrafterConfig, encoder: TransformerEncoderBase, decoder: BlockDecoder
    ):
        super().__init__(encoder, decoder)
        self.cfg = cfg
        self.num_updates = 0
        self.word_list: WordList | None = None  # a checkpoint may have one
        self.word_lists = nn.ModuleDict()  # by pair, of several languages

    @classmethod
    def add_args(cls, parser: Any) -> None:
        gen_parser_from_dataclass(parser, _Flags(), delete_default=True, with_prefix="")

    @classmethod
    def settings(cls, args: Any) -> SpecDrafterConfig:
        """The settings, checked."""
        cfg = drafter_config(args)
        check_config(cfg)
        return cfg

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "SpecDrafter":
        """Build a drafter; take weights from a verifier where the settings ask for it.

        ``args`` is what the trainer will save as the checkpoint's model settings. Once weights have
        been taken, the fields that name the verifier's file are emptied in it, so that
        loading a saved drafter does not need that file.
        """
        cfg = cls.settings(args)
        source, target = task.source_dictionary, task.target_dictionary
        if source is None:
            raise UsageError(
                "--arch",
                "a spec_drafter reads words, and the source of this task is none",
                "train an attached_drafter",
            )
        build = TransformerModelBase.build_embedding
        source_table = build(cfg, source, cfg.encoder.embed_dim, cfg.encoder.embed_path)
        if cfg.share_all_embeddings:
            if source != target:
                raise UsageError(
                    "--share-all-embeddings",
                    "the source and target dictionaries differ",
                    "use a joined one (fairseq-preprocess --joined-dictionary), or train without "
                    "the flag",
                )
            target_table = source_table
            cfg.share_decoder_input_output_embed = True
        else:
            target_table = build(cfg, target, cfg.decoder.embed_dim, cfg.decoder.embed_path)
        encoder = TransformerEncoderBase(cfg, source, source_table)
        copy = SoftSourceCopy(encoder) if cfg.source_copy else None
        model = cls(cfg, encoder, cls.decoder_class(cfg, target, target_table, copy))
        if cfg.apply_bert_init:
            start_as_bert(model)
        if cfg.init_encoder_from or cfg.init_decoder_from:
            initialise(model, cfg, source, target)
            forget_start(args, cfg)
        return model

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Make room for a vocabulary shortlist where a checkpoint has one (fairseq's hook)."""
        super().upgrade_state_dict_named(state_dict, name)
        prefix = f"{name}." if name else ""
        source, target = self.encoder.dictionary, self.decoder.dictionary
        lists = WordList.find(state_dict, source, target, prefix)
        self.word_list = lists.pop(None, None)
        self.word_lists = nn.ModuleDict(lists)

    def for_pair(self, pair: str) -> Any:
        """The model that drafts for a pair of languages (``en-de``): itself, or one that shares its
        weights and has the pair's shortlist, if there is one."""
        if not self.word_lists:
            return self
        made: Any = shallow(self)
        made.word_list = self.word_lists[pair] if pair in self.word_lists else None
        return made

    def for_verifier(self, verifier: Any) -> Any:
        """The model that drafts for a verifier: itself, or one that uses the verifier's tables."""
        return with_tables(self, verifier)

    def set_num_updates(self, num_updates: int) -> None:
        """Keep the number of updates: the glancing ratio depends on it."""
        super().set_num_updates(num_updates)
        self.num_updates = num_updates

    def read(
        self, src_tokens: Tensor, src_lengths: Tensor, prev_output_tokens: Tensor
    ) -> tuple[Any, Tensor | None, Tensor | None]:
        """The decoder's inputs: an encoder's output, and a verifier's hidden states or None.

        The third is a verifier's last states, from which it predicts the target; or None.
        """
        return self.encoder(src_tokens, src_lengths=src_lengths), None, None

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        prev_output_tokens: Tensor,
        cuts: Tensor | None = None,
        targets: Tensor | None = None,
        glancing_ratio: float = 0.0,
        soft_targets: bool = False,
    ) -> dict[str, Tensor | None]:
        """Logits for the block positions to learn from, with glancing.

        The encoder runs once. With a ratio above 0 the decoder runs twice: without gradients to
        draft, then with some targets revealed.

        Args:
            src_tokens: long [B, S].
            src_lengths: long [B].
            prev_output_tokens: long [B, T].
            cuts: long [B, C].
            targets: long [B, C, k], the padding index where there is no target.
            glancing_ratio: share of the wrong drafts that is revealed.
            soft_targets: also return the verifier's logits.

        Returns:
            ``logits`` [N, V] for the N positions of ``learnt`` (bool [B, C, k]) in row-major order;
            ``first_correct`` bool [B, C, k], where the first pass was right, or None without one;
            ``expected`` [N, V], the verifier's logits for the same positions given the true tokens
            before each, or None.

        Raises:
            ValueError: called as an ordinary translation model, without cuts; or soft targets of a
                drafter that reads no verifier.
        """
        if cuts is None or targets is None:
            raise UsageError(
                "",
                "a spec_drafter predicts blocks after given cuts",
                "train it with --criterion glancing_block_loss, and decode with it as "
                "--drafter-path",
            )
        encoder_out, states, final = self.read(src_tokens, src_lengths, prev_output_tokens)
        state = self.decoder.start_source(src_tokens)
        valid = targets.ne(self.decoder.padding_idx)
        known = (prev_output_tokens, encoder_out, cuts, state)
        learnt, revealed, first_correct = valid, None, None
        if glancing_ratio > 0:
            with torch.no_grad():
                first_correct = self._correct(self.decoder(*known, states=states), targets)
                revealed = choose_revealed(first_correct, valid, glancing_ratio)
                learnt = valid & ~revealed
        features = self.decoder(*known, targets, revealed, states)
        if self.decoder.chain is not None:  # it runs over revealed tokens too
            lengths = valid.sum(2)
            features = self.decoder.follow_chain(features, prev_output_tokens, cuts, lengths)
        places = learnt.flatten().nonzero().squeeze(1)  # once: a GPU is waited for
        expected = None
        if soft_targets:
            expected = self._expected(final, cuts, learnt.size(2), places)
        return {
            "logits": self.decoder.output_layer(features.flatten(0, 2)[places]),
            "learnt": learnt,
            "first_correct": first_correct,
            "expected": expected,
        }

    def _correct(self, features: Tensor, targets: Tensor) -> Tensor:
        """Where the best token is the target: bool [B, C, k], False where there is no target."""
        valid = targets.ne(self.decoder.padding_idx)
        places = valid.flatten().nonzero().squeeze(1)
        # on the CPU, max() finds the index several times faster than argmax() does
        drafted = self.decoder.output_layer(features.flatten(0, 2)[places]).max(-1).indices
        right = drafted.eq(targets.flatten()[places])
        return torch.zeros_like(valid).flatten().index_copy(0, places, right).view_as(valid)

    def _expected(
        self, final: Tensor | None, cuts: Tensor, block_size: int, places: Tensor
    ) -> Tensor:
        """The verifier's logits [N, V] at ``places`` (long [N], in [B C k]) of the masks."""
        if final is None:
            raise UsageError(
                "--soft-targets",
                "only an attached_drafter reads a verifier in training",
                "use --arch attached_drafter_base, or leave the flag out",
            )
        at = block_positions(cuts, block_size) - 1  # what predicts each mask's token
        first = torch.arange(at.size(0), device=at.device)[:, None, None] * final.size(1)
        predicted: Tensor = self.encoder.predict(
            final.flatten(0, 1)[(first + at).flatten()[places]]
        )
        return predicted


DEEP_SHALLOW = {"encoder_layers": 12, "decoder_layers": 2}
SMALLEST = {"encoder_layers": 2, "decoder_layers": 1, "share_all_embeddings": True, **TINY}
register_architectures("spec_drafter", SpecDrafterConfig, {
    "spec_drafter": {**BASE, **DEEP_SHALLOW},  # Xia et al. 2023, section 4.1
    "spec_drafter_base": {**BASE, **DEEP_SHALLOW},
    "spec_drafter_big": {**BIG, **DEEP_SHALLOW},
    "nar_drafter_base": {**BASE, **BALANCED},  # Ge et al. 2022, section 4.1
    "nar_drafter_big": {**BIG, **BALANCED},
    "spec_drafter_tiny": SMALLEST,  # for tests and demonstrations
})  # fmt: skip
