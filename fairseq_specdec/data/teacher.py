"""The teacher: a trained model or ensemble that decodes batches as fairseq-generate does."""

from __future__ import annotations

import ast
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq import utils

from fairseq_specdec.errors import UsageError

from ..checkpoints.verifier import load_models

Batches = list[list[int]]
"""The corpus indices of each batch of a chunk."""


class Hypotheses(NamedTuple):
    """The teacher's outputs for some sentences.

    ``tokens`` holds all sentences end to end, each with its </s>; a sentence of length 0 had no
    hypothesis.
    """

    indices: np.ndarray  # int64 [n]: place in the corpus
    lengths: np.ndarray  # int32 [n]: tokens with </s>
    at_limit: np.ndarray  # bool [n]: as long as the length limit allows
    tokens: np.ndarray  # int32 [sum of lengths]
    seconds: np.ndarray  # float64 [batches]: spent decoding


def joined(pieces: Sequence[Hypotheses]) -> Hypotheses:
    """One after the other."""
    return Hypotheses(*map(np.concatenate, zip(*pieces)))


class Teacher:
    """The trained model or ensemble and its generator, as fairseq-generate sets them up. ``task``:
    the fairseq task; its ``build_generator`` decides how to decode, so the plugin's own strategies
    serve here as they do in fairseq-generate."""

    def __init__(self, config: Any, task: Any) -> None:
        self.config, self.task = config, task
        self.cuda = torch.cuda.is_available() and not config.common.cpu
        if self.cuda:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())
        common, files, count = config.common, config.common_eval, config.checkpoint
        self.models, self.saved = load_models(
            "--path",
            utils.split_paths(files.path),
            task,
            arg_overrides=ast.literal_eval(files.model_overrides),
            suffix=count.checkpoint_suffix,
            strict=count.checkpoint_shard_count == 1,
            num_shards=count.checkpoint_shard_count,
        )
        for model in self.models:
            if common.fp16 or common.bf16:
                model.to(torch.float16 if common.fp16 else torch.bfloat16)
            if self.cuda:
                model.cuda()
            model.prepare_for_inference_(config)
        self.generator = task.build_generator(self.models, config.generation)
        self.most_positions = min(int(model.max_decoder_positions()) for model in self.models)

    def source_limit(self) -> int | None:
        """The longest source that task and models can read, in tokens."""
        limit = utils.resolve_max_positions(
            self.task.max_positions(), *[model.max_positions() for model in self.models]
        )
        first = limit[0] if isinstance(limit, tuple) else limit
        return None if first is None else int(first)

    def decode(self, sample: dict[str, Any]) -> Hypotheses:
        """The best hypotheses of one collated batch, in its order."""
        generation, began = self.config.generation, time.monotonic()
        # Seeded per batch: sampling gives the same output whatever was decoded before, so a resumed
        # run equals an undisturbed one.
        utils.set_torch_seed(int(self.config.common.seed) * 1000003 + int(sample["id"][0]))
        width = sample["net_input"]["src_tokens"].size(1)
        limit = int(generation.max_len_a * width + generation.max_len_b)
        limit = min(limit, self.most_positions - 1)
        sample = utils.move_to_cuda(sample) if self.cuda else sample
        prefix = None
        if generation.prefix_size > 0:
            if sample["target"] is None:
                raise UsageError("--prefix-size", "the corpus has no targets to take prefixes from")
            prefix = sample["target"][:, : generation.prefix_size]
        ranked = self.task.inference_step(self.generator, self.models, sample, prefix_tokens=prefix)
        best = [found[0]["tokens"].tolist() if len(found) else [] for found in ranked]
        plain = list(map(self._plain, best))
        return Hypotheses(
            sample["id"].cpu().numpy(),
            np.array(list(map(len, plain)), dtype=np.int32),
            np.array([len(tokens) > limit for tokens in best], dtype=bool),
            np.array([token for tokens in plain for token in tokens], dtype=np.int32),
            np.array([time.monotonic() - began]),
        )

    def _plain(self, tokens: list[int]) -> list[int]:
        """A sentence as fairseq-preprocess writes it: without the symbols that the task adds to it
        in training, such as language tokens, and ending in </s>."""
        eos = int(self.task.target_dictionary.eos())
        added = {eos, *getattr(self.generator, "symbols_to_strip_from_output", ())}
        if added == {eos} or not tokens:
            return tokens
        return [token for token in tokens if token not in added] + [eos]

    def decoded(
        self, dataset: Any, chunks: Sequence[Batches], count: Callable[[int], Any]
    ) -> Iterator[Hypotheses]:
        """Yield the outputs of each chunk; ``count`` is called with the sentences of each batch."""
        flat = [batch for chunk in chunks for batch in chunk]
        if getattr(dataset, "supports_prefetch", False):
            dataset.prefetch([index for batch in flat for index in batch])
        how = {"collate_fn": dataset.collater, "num_workers": self.config.dataset.num_workers}
        loader = iter(torch.utils.data.DataLoader(dataset, batch_sampler=flat, **how))
        for chunk in chunks:
            pieces = []
            for batch in chunk:
                pieces.append(self.decode(next(loader)))
                count(len(batch))
            yield joined(pieces)
