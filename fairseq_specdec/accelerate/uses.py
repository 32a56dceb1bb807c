"""How a verifier and its drafter are used: commands, and Python for a converted model."""

import os
import shlex
from typing import Any, Dict, List, Mapping, Tuple

from ..commands.words import words_of
from ..hub.described import VERIFIER
from .commands import PLUGIN, WAYS, Job, strategy


def decode(job: Job, pair: str, way: str, beam: int, size: int) -> str:
    """How to decode a pair from now on."""
    if job.converted is not None:
        return _in_python(job, pair, way, beam, size)
    words = [
        "fairseq-generate", job.data, "--user-dir", PLUGIN, *job.of_pair(pair),
        *words_of(job.generation), "--path", job.path, "--beam", beam, "--batch-size", size,
        *strategy(job, way), *(["--cpu"] if job.cpu else []),
    ]  # fmt: skip
    return _command(words)


def further(job: Job, fastest: Mapping[str, str]) -> List[Tuple[str, str]]:
    """What else a converted model is used with: (what for, command). ``fastest``: the way of each
    pair."""
    if job.converted is None:
        return []
    uses = []
    for pair, way in fastest.items():
        words = ["specdec-serve", "--path", _verifier(job), *_languages(pair)]
        words += ["--strategy", WAYS[way].strategy]
        words += ["--drafter-path", job.drafter] if WAYS[way].drafter and not job.placed else []
        uses.append(("serve", _command(words)))
    for pair in job.all_pairs if job.text else ():
        words = ["specdec-bench", os.path.relpath(job.converted)]
        words += ["--path", job.path] if os.path.basename(job.path) != VERIFIER else []
        words += [*_languages(pair), "--text", f"{job.text}.{pair.partition('-')[0]}"]
        words += ["--cpu"] if job.cpu else []
        for way in job.ways:
            words += ["--system", f"{way}: {_command(strategy(job, way))}"]
        uses.append(("measure", _command(words)))
    return uses


def _command(words: List[Any]) -> str:
    return " ".join(shlex.quote(str(word)) for word in words)


def _languages(pair: str) -> List[str]:
    source, _, target = pair.partition("-")
    return ["--source-lang", source, "--target-lang", target]


def _verifier(job: Job) -> str:
    """The converted folder, or a checkpoint in it that has another name."""
    assert job.converted is not None
    return job.path if os.path.basename(job.path) != VERIFIER else os.path.relpath(job.converted)


def _in_python(job: Job, pair: str, way: str, beam: int, size: int) -> str:
    source, _, target = pair.partition("-")
    given: Dict[str, Any] = {"source_lang": source, "target_lang": target}
    given["strategy"] = WAYS[way].strategy
    if WAYS[way].drafter and not job.placed:
        given["drafter"] = job.drafter
    given.update(beam=beam, batch_size=size)
    words = [repr(_verifier(job)), *(f"{name}={value!r}" for name, value in given.items())]
    return f"SpeculativeTranslator.from_pretrained({', '.join(words)})"
