"""The teacher: a trained model or ensemble that decodes batches as fairseq-generate does."""

import ast
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from fairseq import utils

from fairseq_specdec.errors import UsageError

from ..checkpoints.verifier import load_models
from ..io.progress import Counter
from .chunks import DistilledChunks, Hypotheses, pack
from .plan import Plan, Shard
from .settings import teacher_paths

logger = logging.getLogger(__name__)


class Teacher:
    """The trained model or ensemble and its generator, as fairseq-generate sets them up. ``task``:
    the fairseq task; its ``build_generator`` decides how to decode, so the plugin's own strategies
    serve here as they do in fairseq-generate."""

    def __init__(self, config: Any, task: Any) -> None:
        self.config, self.task = config, task
        self.cuda = torch.cuda.is_available() and not config.common.cpu
        if self.cuda:
            torch.cuda.set_device(
                int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count()
            )
        overrides = ast.literal_eval(config.common_eval.model_overrides)
        self.models, self.saved = self._load(teacher_paths(config), overrides, task, "--path")
        language_model = None
        if config.generation.lm_path is not None:
            overrides["data"] = config.task.data
            paths = [config.generation.lm_path]
            language_model = self._load(paths, overrides, None, "--lm-path")[0][0]
        extra = {"lm_model": language_model, "lm_weight": config.generation.lm_weight}
        self.generator = task.build_generator(
            self.models, config.generation, extra_gen_cls_kwargs=extra
        )
        self.most_positions = min(int(model.max_decoder_positions()) for model in self.models)

    def _load(
        self, paths: Sequence[str], overrides: dict[str, Any], task: Any, flag: str
    ) -> tuple[list[Any], Any]:
        checkpoint = self.config.checkpoint
        models, saved = load_models(
            flag, paths, task, arg_overrides=overrides, suffix=checkpoint.checkpoint_suffix,
            strict=checkpoint.checkpoint_shard_count == 1,
            num_shards=checkpoint.checkpoint_shard_count,
        )  # fmt: skip
        for model in models:
            if self.config.common.fp16:
                model.half()
            elif self.config.common.bf16:
                model.to(torch.bfloat16)
            if self.cuda:
                model.cuda()
            model.prepare_for_inference_(self.config)
        return models, saved

    @property
    def device_name(self) -> str:
        """The accelerator's name, or ``"cpu"``."""
        return str(torch.cuda.get_device_name()) if self.cuda else "cpu"

    @property
    def backend(self) -> str:
        """What decodes, in words; the weights are read if they were not."""
        parts = getattr(self.generator, "parts", None)
        if parts is None:
            return "fairseq's own decoding"
        return f"the {'native' if parts().verifier.is_native else 'torch'} backend"

    def source_limit(self) -> int | None:
        """The longest source that task and models can read, in tokens."""
        limit = utils.resolve_max_positions(
            self.task.max_positions(), *[model.max_positions() for model in self.models]
        )
        first = limit[0] if isinstance(limit, tuple) else limit
        return None if first is None else int(first)

    def length_limit(self, width: int) -> int | None:
        """The longest output for sources padded to ``width`` tokens, without </s>.

        None where --match-source-len ties the length to the source on purpose.
        """
        generation = self.config.generation
        if generation.match_source_len:
            return None
        wanted = int(generation.max_len_a * width + generation.max_len_b)
        return min(wanted, self.most_positions - 1)

    def decode(self, sample: dict[str, Any]) -> Hypotheses:
        """Decode one collated batch; the best hypothesis of each sentence, as token ids."""
        # Seeded per batch: sampling gives the same output whatever was decoded before, so a resumed
        # run equals an undisturbed one.
        utils.set_torch_seed(int(self.config.common.seed) * 1000003 + int(sample["id"][0]))
        width = sample["net_input"]["src_tokens"].size(1)
        sample = utils.move_to_cuda(sample) if self.cuda else sample
        prefix = None
        if self.config.generation.prefix_size > 0:
            if sample["target"] is None:
                raise UsageError("--prefix-size", "the corpus has no targets to take prefixes from")
            prefix = sample["target"][:, : self.config.generation.prefix_size]
        ranked = self.task.inference_step(self.generator, self.models, sample, prefix_tokens=prefix)
        tokens = [best[0]["tokens"].tolist() if len(best) else [] for best in ranked]
        limit = self.length_limit(width)
        at_limit = [limit is not None and len(sentence) > limit for sentence in tokens]
        return pack(sample["id"].tolist(), list(map(self._plain, tokens)), at_limit)

    def _plain(self, tokens: list[int]) -> list[int]:
        """A sentence as fairseq-preprocess writes it: without the symbols that the task adds to it
        in training, such as language tokens, and ending in </s>."""
        eos = int(self.task.target_dictionary.eos())
        added = {eos, *getattr(self.generator, "symbols_to_strip_from_output", ())}
        if added == {eos} or not tokens:
            return tokens
        return [token for token in tokens if token not in added] + [eos]


def decode_chunks(
    teacher: Teacher, dataset: Any, plan: Plan, chunks: DistilledChunks, shard: Shard
) -> None:
    """Decode and save this shard's unfinished chunks."""
    todo = [chunk for chunk in plan.chunks_of(shard) if not chunks.has(chunk)]
    everything = sum(len(plan.indices(chunk)) for chunk in plan.chunks_of(shard))
    planned = sum(len(plan.indices(chunk)) for chunk in todo)
    logger.info(
        "shard %d/%d: %d of %d sentences to decode, with %s",
        shard.rank, shard.world, planned, everything, teacher.backend,
    )  # fmt: skip
    with Counter(everything, "sentence", logger, initial=everything - planned) as progress:
        for chunk, hypotheses, seconds in decoded(teacher, dataset, plan, todo, progress.add):
            chunks.write(chunk, hypotheses, seconds)


def decoded(
    teacher: Teacher, dataset: Any, plan: Plan, chunks: Sequence[int], count: Callable[[int], Any]
) -> Iterator[tuple[int, Hypotheses, float]]:
    """Yield each chunk with the teacher's output and the seconds spent decoding it.

    ``count`` is called with the sentences of each batch: a chunk may take minutes.
    """
    batches = {chunk: plan.batches(chunk) for chunk in chunks}
    flat = [batch for chunk in chunks for batch in batches[chunk]]
    if getattr(dataset, "supports_prefetch", False):
        dataset.prefetch([index for batch in flat for index in batch])
    loader = iter(
        torch.utils.data.DataLoader(
            dataset,
            collate_fn=dataset.collater,
            batch_sampler=flat,
            num_workers=teacher.config.dataset.num_workers,
        )
    )
    for chunk in chunks:
        pieces, seconds = [], 0.0
        for batch in batches[chunk]:
            sample = next(loader)
            began = time.monotonic()
            piece = teacher.decode(sample)
            seconds += time.monotonic() - began
            pieces.append(_in_order(piece, batch))
            count(len(batch))
        yield chunk, Hypotheses(*(np.concatenate(column) for column in zip(*pieces))), seconds


def _in_order(piece: Hypotheses, batch: Sequence[int]) -> Hypotheses:
    """Undo the collater's sorting by length; the batch must come back whole."""
    place = {index: row for row, index in enumerate(piece.indices.tolist())}
    if sorted(place) != sorted(batch) or len(piece.indices) != len(piece.lengths):
        raise ValueError(
            f"the generator returned {len(piece.lengths)} outputs for the {len(batch)} "
            "sentences of a batch"
        )
    ends = np.cumsum(piece.lengths)
    rows = [place[index] for index in batch]
    spans = [piece.tokens[ends[row] - piece.lengths[row] : ends[row]] for row in rows]
    return Hypotheses(
        piece.indices[rows], piece.lengths[rows], piece.at_limit[rows], np.concatenate(spans)
    )
