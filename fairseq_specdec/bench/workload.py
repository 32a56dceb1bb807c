"""What is decoded, and with which models: loaded as fairseq-generate loads them."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator, Mapping, Sequence

import torch
from fairseq import utils
from fairseq.data import ConcatDataset, FairseqDataset, RoundRobinZipDatasets
from fairseq.models import BaseFairseqModel
from fairseq.tasks import TASK_REGISTRY
from omegaconf import DictConfig

from fairseq_specdec.checkpoints.verifier import load_models
from fairseq_specdec.data.folder import data_named, split_named
from fairseq_specdec.errors import UsageError
from fairseq_specdec.families.fairseq_flags import check_lengths
from fairseq_specdec.families.registration import SUFFIX
from fairseq_specdec.hub.loading import find

from .timing import Sample


def refuse(faults: Mapping[str, object]) -> None:
    """Refuse a command line for the first of the faults that it has. ``faults``: whether it has a
    fault, by the message of that fault."""
    for message, is_fault in faults.items():
        if is_fault:
            raise UsageError("", message)


@contextlib.contextmanager
def blaming(before: str) -> Iterator[None]:
    """A ValueError becomes a ``UsageError`` with words before it."""
    try:
        yield
    except ValueError as error:
        raise UsageError("", f"{before}{error}") from error


def every_nth(order: Sequence[int], limit: int | None) -> list[int]:
    """``limit`` of ``order``, every n-th: ordered by length, all lengths stay represented."""
    return list(order)[:: max(1, len(order) // (limit or len(order) or 1))][:limit]


def split_paths(path: str | None) -> tuple[str, ...]:
    """The checkpoints of ``a.pt:b.pt``, or of a folder."""
    return tuple(find(path or "", None, None).verifiers)


def of_one_pair(data: FairseqDataset) -> FairseqDataset:
    """The sentences of the pair that is decoded, among a task's of several pairs."""
    if isinstance(data, ConcatDataset) and len(data.datasets) == 1:
        return data.datasets[0]
    return data.datasets[data.eval_key] if isinstance(data, RoundRobinZipDatasets) else data


class Workload:
    """The sentences of a split, and the models that decode them.

    Args:
        limit: decode about so many sentences; None for all.
        paths: checkpoints whose limits the sentences must keep.
        sources: a sequence of sentences, split into symbols of the dictionary; None for a split.

    Attributes:
        order: indices of the sentences in ``data``, shortest source first.
        one_system: whether a single system will use the models, which may then free weights.
    """

    def __init__(
        self,
        config: DictConfig,
        limit: int | None,
        paths: tuple[str, ...],
        sources: Sequence[str] | None = None,
    ) -> None:
        self.config = config
        self.one_system = False
        self.cuda = torch.cuda.is_available() and not config.common.cpu
        with data_named(config.task.data):
            stock_task = TASK_REGISTRY[config.task._name[: -len(SUFFIX)]]
            self.task = stock_task.setup_task(config.task)
        self._models: dict[tuple[str, ...], list[BaseFairseqModel]] = {}
        models = self.models(paths)
        split = config.dataset.gen_subset
        if sources is None:
            with split_named(config.task, split):
                self.task.load_dataset(split)
            self._whole = self.task.dataset(split)
        else:
            encode = self.task.source_dictionary.encode_line
            tokens = [encode(line, add_if_not_exist=False).long() for line in sources]
            self._whole = self.task.build_dataset_for_inference(tokens, list(map(len, tokens)))
        self.data = of_one_pair(self._whole)
        # fairseq draws the order of equally long sentences anew, but for the split named test: a
        # limit would take others every time.
        self.data.shuffle = False
        self.order = every_nth(self._fitting(models, split), limit)

    def _fitting(self, models: list[BaseFairseqModel], split: str) -> list[int]:
        """Indices of the sentences that the models take, shortest first."""
        limits = [self.task.max_positions(), *[model.max_positions() for model in models]]
        ordered, most = self._whole.ordered_indices(), utils.resolve_max_positions(*limits)
        skip = self.config.dataset.skip_invalid_size_inputs_valid_test
        check_lengths(self._whole, ordered, most, skip, None)
        order = self.task.filter_indices_by_size(ordered, self._whole, most, skip)
        if len(order) == 0:
            raise UsageError(f"--gen-subset {split}", f"no sentence in {self.config.task.data}")
        return [int(index) for index in order]

    def models(self, paths: tuple[str, ...]) -> list[BaseFairseqModel]:
        """The ensemble of these checkpoints, loaded once, on its device and ready to decode."""
        if paths not in self._models:
            config = self.config
            overrides = ast.literal_eval(config.common_eval.model_overrides)
            models = load_models("--path", paths, self.task, arg_overrides=overrides)[0]
            for model in models:
                if config.common.fp16:
                    model.half()
                if self.cuda:
                    model.cuda()
                model.prepare_for_inference_(config)
            self._models[paths] = models
        return self._models[paths]

    def batches(self, size: int) -> list[Sample]:
        """The sentences as fairseq samples on the models' device; the last may be smaller."""
        chunks = [self.order[i : i + size] for i in range(0, len(self.order), size)]
        collated = [self.data.collater([self.data[i] for i in chunk]) for chunk in chunks]
        for sample in collated:
            sample["batch_size"] = size
        return [utils.move_to_cuda(sample) for sample in collated] if self.cuda else collated
