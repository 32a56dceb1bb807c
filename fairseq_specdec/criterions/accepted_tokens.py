"""The mean accepted tokens of a drafter, measured by decoding with its verifier."""

import argparse
import os
from typing import Any

import torch
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import Tensor

from fairseq_specdec.errors import UsageError

from ..checkpoints.verifier import load_models
from ..config import decoding_settings
from ..decoding.builder import Overrides, build_generator
from ..decoding.drafter_file import check_reading
from ..decoding.stats import DecodingStats
from ..drafting import DraftOptions, NarBlockDrafter
from ..engine.devices import DTYPES


class AcceptedTokens:
    """Decodes validation batches with the drafter in training and a fixed verifier.

    The drafter's loss predicts little of the speed: a position counts only if all before it were
    right, and the verifier, not the reference, judges. This is the figure that the papers call
    Tok. (Ge et al. 2022, section 4.1), under exact verification.

    Args:
        sentences: decode about so many, spread over the split. fairseq validates from the
            shortest to the longest, and in short sentences a draft has fewer tokens to be right.
        task: the training task; its dictionaries must be the verifier's.
    """

    def __init__(self, path: str, sentences: int, task: Any) -> None:
        if not os.path.isfile(path):
            raise UsageError("--eval-verifier", f"no such file: {path}")
        self.path = path
        self.sentences = sentences
        self.task = task
        self.source, self.target = task.source_dictionary, task.target_dictionary
        self.left = sentences
        self.verifier: Any | None = None

    def restart(self) -> None:
        """Training continues; the next validation starts a new measurement."""
        self.left = self.sentences

    def _chosen(self, ids: Tensor) -> Tensor:
        """Rows of a batch to decode, long [n]; ids: long [B], places in the split."""
        splits = [len(split) for name, split in self.task.datasets.items() if name != "train"]
        apart = max(max(splits, default=0) // self.sentences, 1)
        return (ids % apart == 0).nonzero()[:, 0][: self.left]

    @torch.no_grad()
    def measure(self, drafter: Any, sample: dict[str, Any]) -> dict[str, int]:
        """Decode a validation batch, while there are sentences left to decode.

        Returns:
            Sums for the log: ``n_emitted`` tokens and ``n_iterations``; zeros when no more
            sentences are wanted.
        """
        net_input = sample["net_input"]
        wanted = self._chosen(sample["id"])
        if wanted.numel() == 0:
            return {"n_emitted": 0, "n_iterations": 0}
        self.left -= wanted.numel()
        if self.verifier is None:
            # A task of its own: the training task may do other things when models are built.
            task = TranslationTask(TranslationConfig(), self.source, self.target)
            self.verifier = load_models("--eval-verifier", [self.path], task)[0][0].eval()
            check_reading(drafter, self.verifier, "--eval-verifier")
        self.verifier.to(net_input["src_tokens"].device)
        generator = self.generator_for(drafter, net_input["src_tokens"].size(1))
        # Of a task with language tokens the output starts from the target's instead of </s>, or
        # the token is forced after it.
        settings = getattr(self.task, "args", None)
        replaced = getattr(settings, "lang_tok_replacing_bos_eos", False)
        forced = getattr(settings, "decoder_langtok", False) and not replaced
        starts = net_input["prev_output_tokens"][wanted, 0]
        for start in starts.unique().tolist():
            rows = wanted[starts == start]
            batch = {key: net_input[key][rows] for key in ("src_tokens", "src_lengths")}
            prefix = sample["target"][rows, :1] if forced else None
            generator.generate([self.verifier], {"net_input": batch}, prefix, bos_token=start)
        return {"n_emitted": generator.stats.emitted, "n_iterations": generator.stats.iterations}

    def generator_for(self, drafter: Any, width: int) -> Any:
        """Greedy decoding with the drafter, for sources of so many tokens."""
        # The model in training must not be converted: decode in its own number format.
        own = next(drafter.parameters()).dtype
        options = DraftOptions(
            drafter.decoder.block_size,
            self.target.pad(),
            self.target.eos(),
            next(name for name, dtype in DTYPES.items() if dtype == own),
        )
        return build_generator(
            [self.verifier],
            self.source,
            self.target,
            # Early in training the verifier may be poor too: repetitions must not delay training.
            argparse.Namespace(beam=1, max_len_a=0, max_len_b=2 * width + 10),
            decoding_settings(strategy="greedy"),
            stats=DecodingStats(),
            # Whole blocks, however many sentences there are: their accepted tokens are measured.
            overrides=Overrides(NarBlockDrafter(drafter, options), always_draft=True),
        )
