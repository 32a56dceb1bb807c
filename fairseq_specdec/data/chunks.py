"""The teacher's output while it is made: chunks on disk, and the corpus that they make."""

from __future__ import annotations

import argparse
import json
import logging
import os
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from fairseq_specdec.errors import UsageError

from ..io.progress import Counter
from .corpus import each_pair
from .merge import Filters, write_corpus
from .part import Part
from .teacher import Hypotheses, joined
from .work import ALONE, Shard, Work, provenance

logger = logging.getLogger(__name__)


class Distillation(Work):
    """The chunks of all pairs, and the corpus that they make."""

    def __init__(self, args: argparse.Namespace) -> None:
        pairs = getattr(args, "lang_pairs", None)
        named = [getattr(args, side, None) for side in ("source_lang", "target_lang")]
        settings: dict[str, Any] = {}
        if pairs is None or None not in named:
            self.parts = [Part(args)]
        else:
            pairs = pairs.split(",") if isinstance(pairs, str) else list(pairs)
            self.parts = [Part(flags, pair) for pair, flags in each_pair(args, pairs)]
            settings = {"--source-lang": None, "--target-lang": None, "pairs": ",".join(pairs)}
        for part in self.parts:
            settings = {**part.settings, **settings}
        self.drops = Filters(args.on_length_limit, args.max_length_ratio)
        super().__init__(os.path.abspath(args.dest), settings, self.drops._asdict())

    def todo(self, part: Part, shard: Shard = ALONE) -> list[int]:
        """The chunks of a shard that are not finished."""
        chunks = range(shard.rank, len(part.plan.chunks), shard.world)
        return [chunk for chunk in chunks if not os.path.isfile(self.path(part.file(chunk)))]

    def unfinished(self) -> int:
        return sum(len(self.todo(part)) for part in self.parts)

    def counter(self, part: Part, todo: Sequence[int], shard: Shard, by: str) -> Counter:
        """Counts the sentences of a shard's unfinished chunks. ``by``: what decodes."""
        plan = part.plan
        total = sum(plan.size(chunk) for chunk in range(shard.rank, len(plan.chunks), shard.world))
        left = sum(map(plan.size, todo))
        logger.info("%d of %d sentences to decode, with %s", left, total, by)
        return Counter(total, "sentence", logger, initial=total - left)

    def decode(self, shard: Shard, words: Sequence[str], merge: bool) -> None:
        """Decode and save this shard's unfinished chunks, or with ``merge`` only plan them.
        ``words``: the command line."""
        for part in self.parts:
            teacher, dataset = part.load()
            if merge:
                continue
            todo = self.todo(part, shard)
            run = provenance("specdec-distill", words, teacher.device_name)
            run["shard"] = f"{shard.rank}/{shard.world}"
            with self.counter(part, todo, shard, teacher.backend) as progress:
                chunks = [part.plan.chunks[chunk] for chunk in todo]
                for chunk, made in zip(todo, teacher.decoded(dataset, chunks, progress.add)):
                    self.write(part, chunk, *made, run)

    def write(
        self, part: Part, chunk: int, hypotheses: Hypotheses, seconds: float, run: dict[str, Any]
    ) -> None:
        """Save a finished chunk, with the seconds spent decoding it and who did."""
        about = np.array(json.dumps({"seconds": seconds, "run": run}))
        with self.saving(part.file(chunk)) as stream:
            np.savez(stream, about=about, **hypotheses._asdict())

    def build(self, folder: str) -> dict[str, Any]:
        made = {part.pair: self._built(part, folder) for part in self.parts}
        first = self.parts[0]
        about = {"corpus": first.corpus.directory, "teacher": first.config.common_eval.path}
        return {**about, **({"pairs": made} if first.pair else made[""])}

    def _built(self, part: Part, folder: str) -> dict[str, Any]:
        pieces, seconds, runs = [], 0.0, {}
        for chunk in range(len(part.plan.chunks)):
            piece, about = _read(self.path(part.file(chunk)))
            pieces.append(piece)
            seconds += about["seconds"]
            runs[json.dumps(about["run"])] = about["run"]
        hypotheses = joined(pieces)
        made = write_corpus(part, hypotheses, self.drops, folder, self.destination)
        rate = round(len(hypotheses.indices) / max(seconds, 1e-9), 3)
        made["decoding"] = {
            "seconds_of_all_processes": round(seconds, 3),
            "sentences_per_second_and_process": rate,
        }
        return {**made, "runs": list(runs.values())}


def _read(path: str) -> tuple[Hypotheses, dict[str, Any]]:
    """A chunk, the seconds spent on it, and who made it."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            piece = Hypotheses(*(arrays[name] for name in Hypotheses._fields))
            about: dict[str, Any] = json.loads(str(arrays["about"]))
        if int(piece.lengths.sum()) != len(piece.tokens):
            raise ValueError("lengths do not add up")
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        remedy = "delete it and run the same command again"
        raise UsageError(path, f"damaged ({error})", remedy) from error
    return piece, about
