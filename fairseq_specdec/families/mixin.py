"""What turns a fairseq task into one that decodes with this project."""

import gc
import logging
import os
import weakref
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import torch
from fairseq.data import data_utils
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.tasks import TASK_REGISTRY
from omegaconf import OmegaConf

from fairseq_specdec.checkpoints.content import check_file
from fairseq_specdec.commands.in_fairseq import fairseq_command
from fairseq_specdec.compat.data_files import tokens_checked
from fairseq_specdec.compat.subword_files import check_codes
from fairseq_specdec.config import OWN_FIELDS, SpecDecConfig
from fairseq_specdec.data.folder import data_named, split_named
from fairseq_specdec.decoding import builder
from fairseq_specdec.decoding.generation_flags import check_generation_flags, sampler_of
from fairseq_specdec.decoding.stats import DecodingStats
from fairseq_specdec.engine.memory import only_decodes, restore
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.contents import WrongFileError
from fairseq_specdec.trace.recorder import Recorder, TraceBuilder, settings_of

from .fairseq_flags import (
    check_bpe_files,
    check_command_line,
    check_lengths,
    take_languages,
    unusable_bpe,
)
from .languages import check_direction, check_languages, of_task
from .stock_generator import decided
from .subwords import unsplit

logger = logging.getLogger(__name__)

# Tokens of a source, to tell the sentences of a batch of so many tokens.
_USUAL_LENGTH = 32


def _log_is_open() -> bool:
    """Whether every stream that this module logs to can still be written."""
    current: logging.Logger | None = logger
    streams: list[Any] = []
    while current is not None:
        streams += [getattr(each, "stream", None) for each in current.handlers]
        current = current.parent if current.propagate else None
    return not any(getattr(each, "closed", False) for each in streams)


def _report(strategy: str, stats: DecodingStats, lossless: bool) -> None:
    if stats.sentences and _log_is_open():
        relaxed = "" if lossless else "; not lossless: the output may differ from fairseq's"
        logger.info("%s%s", stats.summary(strategy), relaxed)


def _ended(batches: list[Any]) -> bool | None:
    """Whether every batch was asked for; None where there was no iterator."""
    if not batches:
        return None
    try:
        return bool(batches[0].end_of_epoch())
    except AttributeError:  # no iteration was begun
        return False


def _settings(args: Any, own: Any) -> Namespace:
    """Flags from the generation arguments where they are given there, else from the task.

    Hub keyword arguments and --eval-bleu-args reach the generator only in ``args``. A task that a
    checkpoint describes lacks those that were added since, or all.
    """
    values = {}
    for field in OWN_FIELDS:
        value = getattr(args, field.name, None)
        values[field.name] = getattr(own, field.name, field.default) if value is None else value
    return Namespace(**values)


class SpecDecMixin:
    """Stands before the class of a fairseq task: what the task would decode with stock's generator
    is decoded with this project's, under the same decisions of the task (start and end symbols,
    prefixes, limits, symbols that are not printed).

    ``register_specdec`` makes such a class and adds the decoding flags to the task's.
    """

    decodes_speculatively = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._collected = False
        # Weak, so that a generator's end is seen (see below) and hub calls do not pile up.
        self._generators: weakref.WeakSet = weakref.WeakSet()
        self._recorders: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._drafters: dict[tuple[Any, ...], Any] = {}
        self._batches: list[Any] = []  # the iterator that was asked for last
        self._max_tokens: Any = None  # of a batch
        self._full_batch: int | None = None  # sentences of its full batches
        self._warned = False  # that --fp16 is slow
        self._draft_lines: list[str] | None = None
        self._unsplit: Any = None  # the dictionary of input that --bpe does not split

    @classmethod
    def add_args(cls, parser: Any) -> None:
        """The task's flags, and this project's where the task has no dataclass to hold them."""
        check_command_line()
        super().add_args(parser)  # type: ignore[misc]
        if getattr(cls, "__dataclass", None) is None:
            gen_parser_from_dataclass(parser, SpecDecConfig())

    @classmethod
    def setup_task(cls, cfg: Any, **kwargs: Any) -> Any:
        """The task, its dictionaries loaded. Raises ValueError, before any model is loaded: flags
        that contradict one another or the dictionaries, by name; FileNotFoundError: a dictionary.
        """
        settings = _settings(None, cfg)
        builder.check_settings(settings)
        check_languages(cfg)
        with data_named(cfg.data):
            task = super().setup_task(cfg, **kwargs)  # type: ignore[misc]
        words = (task.source_dictionary, task.target_dictionary)
        builder.check_dictionaries(settings.strategy, *words, settings)
        return task

    @classmethod
    def load_dictionary(cls, filename: str) -> Any:
        """As fairseq's; its attribute ``file`` names the file."""
        try:
            dictionary = super().load_dictionary(filename)  # type: ignore[misc]
            dictionary.file = filename
            dictionary.words_in_file = len(dictionary)
            return dictionary
        except (FileNotFoundError, WrongFileError):
            raise
        except Exception as error:  # of encodings fairseq raises Exception itself
            raise UsageError(
                filename,
                f"cannot be read as a dictionary ({str(error)[:200]})",
                "copy it again from where the model was trained",
            ) from error

    @property
    def own_flags(self) -> Any:
        """The task's flags, this project's among them, where fairseq keeps them."""
        cfg = getattr(self, "cfg", None)
        return self.args if cfg is None else cfg  # type: ignore[attr-defined]

    def _loader(self, models: Any) -> Callable[..., Any]:
        """What reads ``--drafter-path``, once a file: the hub builds a generator for every call.

        Generators whose drafters run in the same format share one; they move it there, and to the
        verifier's device.
        """

        def load(path: str, src_dict: Any, tgt_dict: Any, read: Callable, dtype: Any) -> Any:
            like = next(models[0].parameters())
            key = (path, os.stat(path).st_mtime_ns, read, dtype, like.dtype, like.device)
            if key not in self._drafters:
                drafter = read(path, src_dict, tgt_dict)
                self._drafters = {key: of_task(drafter, self.own_flags)}
            return self._drafters[key]

        return load

    def build_generator(self, models: Any, args: Any, *rest: Any, **more: Any) -> Any:
        """The generator for ``--strategy``.

        Args:
            models: the ensemble.
            args: fairseq's generation flags.
            rest, more: as the task takes them. Where a class is asked for (``seq_gen_cls``), the
                task builds that one.

        Raises:
            ValueError: a flag or file that cannot be honoured, by name.
        """
        if (rest[0] if rest else more.get("seq_gen_cls")) is not None:
            for model in models:
                restore(model)
            return super().build_generator(models, args, *rest, **more)  # type: ignore[misc]
        if more.pop("prefix_allowed_tokens_fn", None) is not None:
            raise UsageError("prefix_allowed_tokens_fn", "cannot be honoured")
        if OmegaConf.is_config(args):
            # Reading a field that a config lacks leaves a traceback in memory, and with it the
            # frame that will hold the generator, until the next garbage collection.
            args = Namespace(**OmegaConf.to_container(args))
        settings = _settings(args, self.own_flags)
        check_direction(self.own_flags)
        check_generation_flags(args, settings.strategy)
        sampler_of(args)
        like = next(models[0].parameters(), torch.zeros(0))
        if like.dtype == torch.float16 and like.device.type == "cpu" and not self._warned:
            self._warned = True
            logger.warning(
                "--fp16: a CPU computes in it without the native backend, slower than in fp32, or "
                "not at all, and the output may differ; leave it out"
            )
        stock = super().build_generator(models, args, *rest, **more)  # type: ignore[misc]
        names = [name for name, kind in TASK_REGISTRY.items() if kind is type(self)]
        args, extra = decided(stock, args, names[0] if names else type(self).__name__)
        generator = builder.build_generator(
            list(models),
            self.source_dictionary,  # type: ignore[attr-defined]
            stock.tgt_dict,
            args,
            settings,
            extra,
            load=self._loader(models),
            free_unpacked=all(map(only_decodes, models)) and not settings.keep_weights,
            overrides=builder.Overrides(keep_trace=settings.trace_path is not None),
        )
        if not self._collected:
            self._collected = True
            gc.collect()  # of a config's traceback that fairseq's own commands caused, see above
        self._watch(generator, settings, args)
        return generator

    def build_tokenizer(self, args: Any) -> Any:
        """As fairseq's; in the languages of the data where none is named."""
        take_languages(args, self.own_flags)
        return super().build_tokenizer(args)  # type: ignore[misc]

    def build_bpe(self, args: Any) -> Any:
        """As fairseq's; without one the input that follows is looked at. Raises WrongFileError: its
        codes are another model's."""
        check_bpe_files(args)
        try:
            bpe = super().build_bpe(args)  # type: ignore[misc]
        except (UsageError, OSError, ImportError):
            raise
        except Exception as error:  # sentencepiece and tokenizers each raise their own
            raise unusable_bpe(args, error) from error
        source, target = self.source_dictionary, self.target_dictionary  # type: ignore[attr-defined]
        known = [words for words in (source, target) if words is not None]
        joined = len(known) < 2 or source.symbols == target.symbols
        # The others print the target alone, whose codes may be others than the source's.
        check_codes(bpe, known[:1] if fairseq_command() == "fairseq-interactive" else known, joined)
        self._unsplit = source if bpe is None else None
        return bpe

    def build_dataset_for_inference(self, src_tokens: Any, *args: Any, **kwargs: Any) -> Any:
        """As fairseq's; a warning where the input should be split into subwords."""
        text = None if self._unsplit is None else unsplit(self._unsplit, src_tokens)
        if text is not None:
            self._unsplit = None
        if text:
            logger.warning("%s", text)
        build = super().build_dataset_for_inference  # type: ignore[misc]
        return build(src_tokens, *args, **kwargs)

    def _watch(self, generator: Any, settings: Any, args: Any) -> None:
        """Report the figures of a generator at its end, and record its traces if asked to.

        fairseq's commands do not say when they end. They drop the generator then, before they close
        a --results-path file, which the log is written to.
        """
        self._generators.add(generator)
        known = (settings.strategy, generator.stats, generator.rule.lossless)
        weakref.finalize(generator, _report, *known)
        if settings.trace_path is None:
            return
        facts = settings_of(settings, args, generator)
        words = (self.source_dictionary, generator.tgt_dict)  # type: ignore[attr-defined]
        trace_builder = TraceBuilder(settings.strategy, facts, *words)
        batches = self._batches  # not the task itself: the recorder may outlive it
        recorder = Recorder(settings.trace_path, trace_builder, lambda: _ended(batches))
        weakref.finalize(generator, recorder.close, _log_is_open)
        self._recorders[generator] = recorder

    def load_dataset(self, split: str, *args: Any, **kwargs: Any) -> None:
        """As fairseq's. Raises FileNotFoundError: the folder lacks the split; with those it has."""
        with tokens_checked(), split_named(self.own_flags, split):
            super().load_dataset(split, *args, **kwargs)  # type: ignore[misc]

    def get_batch_iterator(
        self,
        dataset: Any,
        max_tokens: int | None = None,
        max_sentences: int | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """As fairseq's; a trace is complete when the last iterator has come to its end. What is
        decoded from now on is planned for batches of ``max_sentences``, else for as many of
        ``_USUAL_LENGTH`` as ``max_tokens`` allows."""
        self._max_tokens = max_tokens
        given = super().get_batch_iterator  # type: ignore[misc]
        batches = given(dataset, max_tokens, max_sentences, *args, **kwargs)
        self._batches[:] = [batches]
        fitting = None if max_tokens is None else max(1, int(max_tokens) // _USUAL_LENGTH)
        self._full_batch = max_sentences or fitting
        return batches

    def filter_indices_by_size(
        self, indices: Any, dataset: Any, max_positions: Any = None,
        ignore_invalid_inputs: bool = False,
    ) -> Any:  # fmt: skip
        """As fairseq's. Raises UsageError: sentences that fit no batch, or no sentence is left."""
        check_lengths(dataset, indices, max_positions, ignore_invalid_inputs, self._max_tokens)
        given = super().filter_indices_by_size  # type: ignore[misc]
        return given(indices, dataset, max_positions, ignore_invalid_inputs)

    def inference_step(
        self, generator: Any, models: Any, sample: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """As fairseq's, and recorded where ``--trace-path`` is given."""
        step = super().inference_step  # type: ignore[misc]
        sample = {"batch_size": self._full_batch, **sample}
        if getattr(self.own_flags, "draft_file", None) is not None:
            sample["draft_tokens"] = self._drafts(sample)
        recorder = self._recorders.get(generator)
        if recorder is None:
            return step(generator, models, sample, *args, **kwargs)
        try:
            hypotheses = step(generator, models, sample, *args, **kwargs)
            recorder.add(sample, hypotheses)
        except BaseException:
            recorder.close(failed=True)
            raise
        return hypotheses

    def _drafts(self, sample: Any) -> torch.Tensor:
        """The lines of ``--draft-file`` for a batch, long [B, D], padded. Raises UsageError: it has
        no line for a sentence."""
        path, words = self.own_flags.draft_file, self.target_dictionary  # type: ignore[attr-defined]
        if "id" not in sample:
            remedy = "use fairseq-generate, or specdec-translate --drafts"
            raise UsageError("--draft-file", "is for the sentences of a data folder", remedy)
        if self._draft_lines is None:
            check_file("--draft-file", path)
            with open(path, encoding="utf-8", errors="replace") as stream:
                self._draft_lines = stream.read().split("\n")
        ids, lines = sample["id"].tolist(), self._draft_lines
        if max(ids) >= len(lines):
            raise UsageError("--draft-file", f"{path} has no line {max(ids) + 1}")
        drafts = [words.encode_line(lines[i], add_if_not_exist=False).long() for i in ids]
        like = sample["net_input"]["src_tokens"]
        drafted: torch.Tensor = data_utils.collate_tokens(drafts, words.pad())
        return drafted.to(like.device)

    def begin_epoch(self, epoch: int, model: Any) -> None:
        """Training begins."""
        super().begin_epoch(epoch, model)  # type: ignore[misc]
        if getattr(self.own_flags, "trace_path", None) is not None:
            raise UsageError("--trace-path", "traces decoding, not training", "leave it out here")

    def begin_valid_epoch(self, epoch: int, model: Any) -> None:
        """Training has moved the weights since the last validation, and perhaps the model."""
        super().begin_valid_epoch(epoch, model)  # type: ignore[misc]
        for generator in self._generators:
            generator.refresh()
