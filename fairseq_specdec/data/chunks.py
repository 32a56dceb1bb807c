"""A distillation: what the command line asks for, and the teacher's output while it is made."""

from __future__ import annotations

import argparse
import copy
import json
import logging
import os
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np
from fairseq import tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks import TASK_REGISTRY
from omegaconf import OmegaConf

from fairseq_specdec.errors import UsageError

from ..io.progress import Counter
from ..io.provenance import digest_of, sha256
from . import merge
from .corpus import Corpus
from .folder import data_named
from .plan import Plan, make_plan, select
from .teacher import Hypotheses, Teacher, joined, teacher_paths
from .work import Shard, Work, provenance

logger = logging.getLogger(__name__)
ALL = Shard(0, 1)


class Part:
    """The corpus of one pair of languages, checked against what is on disk; no model is loaded.

    Args:
        pair: as ``en-de``, where one of several is distilled.
    """

    def __init__(self, args: argparse.Namespace, pair: str = "") -> None:
        self.args, self.pair = args, pair
        self.config = config = convert_namespace_to_omegaconf(args)
        if config.dataset.max_tokens is None and config.dataset.batch_size is None:
            config.dataset.max_tokens = 12000  # fairseq-generate's own default
        teacher_paths(config)
        with data_named(args.data):
            self.task = tasks.setup_task(config.task)
        flags = getattr(self.task, "cfg", None) or self.task.args
        split = config.dataset.gen_subset
        self.corpus = Corpus(args.data, split, flags.source_lang, flags.target_lang)
        if len(self.corpus.splits) > 1 and hasattr(flags, "upsample_primary"):
            flags.upsample_primary = 1  # fairseq's default, -1, cannot join train and train1
        self.settings = self._settings()
        self.digest = digest_of(self.settings)
        self.plan: Plan | None = None

    def _settings(self) -> dict[str, Any]:
        """Everything that the teacher's output depends on, flat, by the flag or file that sets it.

        Files (teacher, drafter, corpus) are recorded by their contents, so moving them changes
        nothing.
        """
        config, args = self.config, self.args
        task = _task_fields(config.task)
        named = {
            name: value
            for name, value in {**task, **_fields(config.generation)}.items()
            # those change no output
            if name not in ("data", "_name") and not name.startswith(("eval_", "print_", "trace_"))
        }
        data, common = config.dataset, config.common
        named.update(
            task=task.get("_name", task.get("task")),
            max_tokens=data.max_tokens, batch_size=data.batch_size,
            required_batch_size_multiple=data.required_batch_size_multiple,
            gen_subset=data.gen_subset, seed=common.seed, fp16=common.fp16, bf16=common.bf16,
            model_overrides=config.common_eval.model_overrides, path=teacher_paths(config),
            source_lang=self.corpus.source, target_lang=self.corpus.target,
            limit=args.limit, fraction=args.fraction, chunk_size=args.chunk_size,
        )  # fmt: skip
        settings = {"--" + name.replace("_", "-"): _plain(value) for name, value in named.items()}
        files = self.corpus.fingerprint().items()
        return {**settings, **{"DATA/" + name: value for name, value in files}}

    def load(self) -> tuple[Teacher, Any]:
        """The teacher and the corpus; makes the plan."""
        args, config, batching = self.args, self.config, self.config.dataset
        teacher = Teacher(config, self.task)
        split = batching.gen_subset
        self.task.load_dataset(split, combine=True, task_cfg=teacher.saved.task)
        dataset = self.task.dataset(split)
        parts = list(getattr(dataset, "datasets", ()))  # what a multilingual task's one pair joins
        dataset = parts[0] if len(parts) == 1 else dataset
        seed = int(config.common.seed)
        self.plan = make_plan(
            self.task,
            dataset,
            select(len(dataset), args.limit, args.fraction, seed),
            teacher.source_limit(),
            args.chunk_size,
            max_tokens=batching.max_tokens,
            max_sentences=batching.batch_size,
            required_batch_size_multiple=batching.required_batch_size_multiple,
            seed=seed,
        )
        return teacher, dataset

    @property
    def planned(self) -> Plan:
        """The plan, once it is made."""
        assert self.plan is not None
        return self.plan

    def name(self, chunk: int) -> str:
        """The file of a chunk. Its name has a digest of its sentences: one that was cut otherwise
        is another."""
        pair = self.pair and self.pair + "-"
        return f"chunk-{pair}{chunk:06d}-{self.planned.digest(chunk):08x}.npz"


class Distillation(Work):
    """The chunks of all pairs, and the corpus that they make."""

    def __init__(self, args: argparse.Namespace) -> None:
        pairs = pairs_of(args)
        self.parts = [Part(of_pair(args, pair), pair) for pair in pairs] or [Part(args)]
        settings: dict[str, Any] = {}
        for part in self.parts:
            settings.update(part.settings)
        if pairs:
            several = {"--source-lang": None, "--target-lang": None, "pairs": ",".join(pairs)}
            settings.update(several)
        self.drops = merge.Filters(args.on_length_limit, args.max_length_ratio)
        destination = os.path.abspath(args.dest)
        super().__init__(destination, merge.REPORT, settings, self.drops._asdict())

    def todo(self, part: Part, shard: Shard = ALL) -> list[int]:
        """The chunks of a shard that are not finished."""
        chunks = range(shard.rank, len(part.planned.chunks), shard.world)
        return [chunk for chunk in chunks if not self.has(part.name(chunk))]

    def unfinished(self) -> int:
        return sum(len(self.todo(part)) for part in self.parts)

    def decode(self, shard: Shard, words: Sequence[str], merge: bool) -> None:
        """Decode and save this shard's unfinished chunks, or with ``merge`` only plan them.
        ``words``: the command line."""
        for part in self.parts:
            teacher, dataset = part.load()
            if merge:
                continue
            plan, todo = part.planned, self.todo(part, shard)
            sizes = [plan.size(n) for n in range(shard.rank, len(plan.chunks), shard.world)]
            everything, planned = sum(sizes), sum(map(plan.size, todo))
            logger.info(
                "shard %d/%d: %d of %d sentences to decode, with %s",
                shard.rank, shard.world, planned, everything, teacher.backend,
            )  # fmt: skip
            run = provenance("specdec-distill", words, teacher.device_name)
            run["shard"] = f"{shard.rank}/{shard.world}"
            with Counter(everything, "sentence", logger, initial=everything - planned) as progress:
                for made in teacher.decoded(dataset, plan, todo, progress.add):
                    self.write(part, *made, run)

    def write(
        self, part: Part, chunk: int, hypotheses: Hypotheses, seconds: float, run: dict[str, Any]
    ) -> None:
        """Save a finished chunk, with the seconds spent decoding it and who did."""
        about = np.array(json.dumps({"seconds": seconds, "run": run}))
        with self.saving(part.name(chunk)) as stream:
            np.savez(stream, about=about, **hypotheses._asdict())

    def read(self, part: Part) -> tuple[Hypotheses, float, list[dict[str, Any]]]:
        """All outputs of a part, the seconds spent on them, and who made them."""
        pieces, seconds, runs = [], 0.0, {}
        for chunk in range(len(part.planned.chunks)):
            path = self.path(part.name(chunk))
            try:
                with np.load(path, allow_pickle=False) as arrays:
                    piece = Hypotheses(*(arrays[name] for name in Hypotheses._fields))
                    about = json.loads(str(arrays["about"]))
                if int(piece.lengths.sum()) != len(piece.tokens):
                    raise ValueError("lengths do not add up")
            except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
                remedy = "delete it and run the same command again"
                raise UsageError(path, f"damaged ({error})", remedy) from error
            pieces.append(piece)
            seconds += about["seconds"]
            runs[json.dumps(about["run"])] = about["run"]
        return joined(pieces), seconds, list(runs.values())

    def build(self, folder: str) -> dict[str, Any]:
        made = {part.pair: self._built(part, folder) for part in self.parts}
        first = self.parts[0]
        about = {"corpus": first.corpus.directory, "teacher": first.config.common_eval.path}
        return {**about, **({"pairs": made} if first.pair else made[""])}

    def _built(self, part: Part, folder: str) -> dict[str, Any]:
        hypotheses, seconds, runs = self.read(part)
        dropped = f"dropped.{part.pair}.tsv" if part.pair else merge.DROPPED
        about = merge.write_corpus(
            part.corpus, part.task, part.config.dataset.dataset_impl, part.planned, hypotheses,
            self.drops, folder, dropped,
        )  # fmt: skip
        merge.log_counts(os.path.join(self.destination, dropped), about["counts"])
        about["decoding"] = {
            "seconds_of_all_processes": round(seconds, 3),
            "sentences_per_second_and_process": round(
                len(hypotheses.indices) / max(seconds, 1e-9), 3
            ),
        }
        return {**about, "runs": runs}


def pairs_of(args: argparse.Namespace) -> list[str]:
    """The pairs to distil, as in ``--lang-pairs``; [] for one pair, which other flags name."""
    given = getattr(args, "lang_pairs", None)
    named = [getattr(args, name, None) for name in ("source_lang", "target_lang")]
    if given is None or None not in named:
        return []
    if named != [None, None]:
        raise UsageError(
            "--source-lang and --target-lang",
            "name both for one pair, neither for all --lang-pairs",
        )
    return given.split(",") if isinstance(given, str) else list(given)


def of_pair(args: argparse.Namespace, pair: str) -> argparse.Namespace:
    """The command line that distils one pair."""
    made = copy.deepcopy(args)
    made.source_lang, made.target_lang = pair.split("-")
    return made


def _plain(value: Any) -> Any:
    """A JSON-serialisable twin of a configuration value; a file's name becomes its SHA-256."""
    if isinstance(value, str) and os.path.isfile(value):
        return "sha256:" + sha256(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return str(value)


def _fields(config: Any) -> dict[str, Any]:
    if OmegaConf.is_config(config):
        container: Any = OmegaConf.to_container(config, resolve=True)
        return dict(container)
    return dict(vars(config))


def _task_fields(task: Any) -> dict[str, Any]:
    """A task's settings. Older tasks have no configuration: theirs are the command line's, of which
    those are taken that the task has added."""
    fields = _fields(task)
    if OmegaConf.is_config(task):
        return fields
    parser = argparse.ArgumentParser()
    TASK_REGISTRY[fields["task"]].add_args(parser)
    own = {action.dest for action in parser._actions}
    return {name: value for name, value in fields.items() if name in {*own, "task"}}
