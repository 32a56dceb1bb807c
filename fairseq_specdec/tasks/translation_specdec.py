"""``--task translation_specdec``: fairseq's translation task with draft-then-verify decoding."""

import gc
import logging
import os
import weakref
from argparse import Namespace
from typing import Any, Callable, Dict, List, Optional, Tuple

from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationTask
from omegaconf import OmegaConf

from fairseq_specdec.commands.in_fairseq import decoding_begins
from fairseq_specdec.compat.truncated_data import tokens_checked
from fairseq_specdec.config import TranslationSpecDecConfig
from fairseq_specdec.data.folder import check_data, refuse_split
from fairseq_specdec.decoding import builder
from fairseq_specdec.decoding.advice import advice
from fairseq_specdec.decoding.stats import DecodingStats
from fairseq_specdec.engine.eager.packed_module import only_decodes
from fairseq_specdec.trace.files import TraceFile
from fairseq_specdec.trace.recorder import Recorder, TraceBuilder, settings_of

logger = logging.getLogger(__name__)


class _Settings:
    """Flags from the generation arguments where they are given there, else from the task."""

    def __init__(self, args: Any, cfg: Any) -> None:
        for name in TranslationSpecDecConfig.__dataclass_fields__:
            # Hub keyword arguments and --eval-bleu-args reach the generator only in `args`.
            value = getattr(args, name, None)
            setattr(self, name, getattr(cfg, name) if value is None else value)


def _log_is_open() -> bool:
    """Whether every stream that this module logs to can still be written."""
    current: Optional[logging.Logger] = logger
    while current is not None:
        for handler in current.handlers:
            if getattr(getattr(handler, "stream", None), "closed", False):
                return False
        current = current.parent if current.propagate else None
    return True


def _report(strategy: str, stats: DecodingStats, options: Any, lossless: bool) -> None:
    if stats.sentences and _log_is_open():
        logger.info(stats.summary(strategy))
        for each in advice(stats, strategy, options, lossless):
            logger.info("advice: %s", each.text)


def _ended(batches: List[Any]) -> Optional[bool]:
    """Whether every batch was asked for; None where there was no iterator."""
    if not batches:
        return None
    try:
        return bool(batches[0].end_of_epoch())
    except AttributeError:  # no iteration was begun
        return False


@register_task("translation_specdec", dataclass=TranslationSpecDecConfig)
class TranslationSpecDecTask(TranslationTask):
    """Translation whose ``build_generator`` returns this project's generator."""

    def __init__(self, cfg: Any, src_dict: Any, tgt_dict: Any) -> None:
        super().__init__(cfg, src_dict, tgt_dict)
        self._collected = False
        # Weak, so that a generator's end is seen (see below) and hub calls do not pile up.
        self._generators: weakref.WeakSet = weakref.WeakSet()
        self._recorders: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._drafters: Dict[Tuple[Any, ...], Any] = {}
        self._batches: List[Any] = []  # the iterator that was asked for last

    @classmethod
    def setup_task(cls, cfg: Any, **kwargs: Any) -> "TranslationSpecDecTask":
        """The task, its dictionaries loaded.

        Raises:
            ValueError: flags that contradict one another or the dictionaries, by name; before any
                model is loaded.
            FileNotFoundError: the data folder or a dictionary is missing.
        """
        builder.check_settings(cfg)
        check_data(cfg)
        task = super().setup_task(cfg, **kwargs)
        builder.check_dictionaries(cfg.strategy, task.src_dict, task.tgt_dict, cfg)
        return task

    @classmethod
    def load_dictionary(cls, filename: str) -> Any:
        """As fairseq's; its attribute ``file`` names the file.

        Raises:
            ValueError: the file is no dictionary; by name, with the remedy.
        """
        try:
            dictionary = super().load_dictionary(filename)
            dictionary.file = filename
            return dictionary
        except FileNotFoundError:
            raise
        except Exception as error:  # of encodings fairseq raises Exception itself
            said = " ".join(str(error).split())[:200]
            raise ValueError(
                f"{filename}: cannot be read as a dictionary ({said}); copy it again from where "
                "the model was trained"
            ) from error

    def _loader(self, models: Any) -> Callable[..., Any]:
        """What reads ``--drafter-path``, once a file: the hub builds a generator for every call.

        Generators whose drafters run in the same format share one; they move it there, and to the
        verifier's device.
        """

        def load(path: str, src_dict: Any, tgt_dict: Any, read: Callable, dtype: Any) -> Any:
            like = next(models[0].parameters())
            key = (path, os.stat(path).st_mtime_ns, read, dtype, like.dtype, like.device)
            if key not in self._drafters:
                self._drafters = {key: read(path, src_dict, tgt_dict)}
            return self._drafters[key]

        return load

    def build_generator(
        self,
        models: Any,
        args: Any,
        seq_gen_cls: Any = None,
        extra_gen_cls_kwargs: Any = None,
        prefix_allowed_tokens_fn: Any = None,
    ) -> Any:
        """The generator for ``--strategy``.

        Raises:
            ValueError: a flag or file that cannot be honoured, by name.
        """
        if seq_gen_cls is not None:
            return super().build_generator(
                models, args, seq_gen_cls, extra_gen_cls_kwargs, prefix_allowed_tokens_fn
            )
        if prefix_allowed_tokens_fn is not None:
            raise ValueError("prefix_allowed_tokens_fn: cannot be honoured")
        if OmegaConf.is_config(args):
            # Reading a field that a config lacks leaves a traceback in memory, and with it the
            # frame that will hold the generator, until the next garbage collection.
            args = Namespace(**OmegaConf.to_container(args))
        settings = _Settings(args, self.cfg)
        generator = builder.build_generator(
            list(models),
            self.src_dict,
            self.tgt_dict,
            args,
            settings,
            extra_gen_cls_kwargs,
            load=self._loader(models),
            free_unpacked=all(map(only_decodes, models)) and not settings.keep_weights,
            overrides=builder.Overrides(keep_trace=settings.trace_path is not None),
        )
        if not self._collected:
            self._collected = True
            gc.collect()  # of a config's traceback that fairseq's own commands caused, see above
        self._watch(generator, settings, args)
        decoding_begins()
        return generator

    def _watch(self, generator: Any, settings: Any, args: Any) -> None:
        """Report the figures of a generator at its end, and record its traces if asked to.

        fairseq's commands do not say when they end. They drop the generator then, before they close
        a --results-path file, which the log is written to.
        """
        self._generators.add(generator)
        known = (settings.strategy, generator.stats, generator.options, generator.rule.lossless)
        weakref.finalize(generator, _report, *known)
        if settings.trace_path is not None:
            self._recorders[generator] = self._recorder(generator, settings, args)

    def _recorder(self, generator: Any, settings: Any, args: Any) -> Recorder:
        """Traces what a generator decodes to ``--trace-path``."""
        facts = settings_of(settings, args, generator)
        words = (self.src_dict, self.tgt_dict)
        trace_builder = TraceBuilder(settings.strategy, facts, *words)
        batches = self._batches  # not the task itself: the recorder may outlive it
        recorder = Recorder(TraceFile(settings.trace_path), trace_builder, lambda: _ended(batches))
        weakref.finalize(generator, recorder.close, _log_is_open)
        return recorder

    def load_dataset(self, split: str, *args: Any, **kwargs: Any) -> None:
        """As fairseq's.

        Raises:
            FileNotFoundError: there is no such split; names those that there are.
            OSError: a file is damaged, or was binarised with another dictionary.
        """
        try:
            with tokens_checked():
                super().load_dataset(split, *args, **kwargs)
        except FileNotFoundError:
            refuse_split(self.cfg, split)

    def get_batch_iterator(self, *args: Any, **kwargs: Any) -> Any:
        """As fairseq's; a trace is complete when the last iterator has come to its end."""
        batches = super().get_batch_iterator(*args, **kwargs)
        self._batches[:] = [batches]
        return batches

    def inference_step(self, generator: Any, models: Any, sample: Any, *args: Any, **kwargs: Any):
        """As fairseq's, and recorded where ``--trace-path`` asks for it."""
        recorder = self._recorders.get(generator)
        if recorder is None:
            return super().inference_step(generator, models, sample, *args, **kwargs)
        try:
            recorder.begin()
            hypotheses = super().inference_step(generator, models, sample, *args, **kwargs)
            recorder.add(sample, hypotheses)
        except BaseException:
            recorder.fail()
            raise
        return hypotheses

    def begin_epoch(self, epoch: int, model: Any) -> None:
        """Training begins.

        Raises:
            ValueError: ``--trace-path`` was given.
        """
        super().begin_epoch(epoch, model)
        if self.cfg.trace_path is not None:
            raise ValueError("--trace-path: traces decoding, not training; leave it out here")

    def begin_valid_epoch(self, epoch: int, model: Any) -> None:
        """Training has moved the weights since the last validation, and perhaps the model."""
        super().begin_valid_epoch(epoch, model)
        for generator in self._generators:
            generator.refresh()
