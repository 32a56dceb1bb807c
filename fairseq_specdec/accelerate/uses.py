"""How a verifier and its drafter are used: commands and Python, to be copied."""

import os
import shlex
from typing import Any, Dict, List, Mapping, Tuple

from ..commands.words import words_of
from ..data.folder import splits
from ..hub.described import VERIFIER
from .commands import PLUGIN, WAYS, Job, strategy


def here(path: str) -> str:
    """A path below the current folder relative to it, any other absolute."""
    relative = os.path.relpath(path)
    return os.path.abspath(path) if relative.split(os.sep)[0] == os.pardir else relative


def decode(job: Job, pair: str, way: str, beam: int, size: int) -> str:
    """How to decode a pair from now on: the test split of DATA, or valid where it has none."""
    if job.converted is not None:
        return _in_python(job, pair, way, beam, size)
    kinds = {None: [], "subword_nmt": ["--remove-bpe"]}
    words = [
        "fairseq-generate", job.data, "--user-dir", here(PLUGIN), *job.of_pair(pair),
        *words_of(job.generation), "--path", job.path,
        "--gen-subset", "test" if "test" in splits(job.data, pair) else "valid",
        *kinds.get(job.subwords, ["--remove-bpe", job.subwords]),
        "--beam", beam, "--batch-size", size, *strategy(job, way), *(["--cpu"] if job.cpu else []),
    ]  # fmt: skip
    return _command(words)


def further(job: Job, fastest: Mapping[str, str]) -> List[Tuple[str, str]]:
    """What else the models are used with: (what for, command). ``fastest``: the way of each pair.
    None of a verifier with language tokens that was not converted, which fairseq alone decodes."""
    if job.converted is None and job.task:
        return []
    uses = []
    for pair, way in fastest.items():
        if job.converted is None:
            uses.append(("use from Python", _in_python(job, pair, way, 1, job.batch_sizes[0])))
        words = ["specdec-serve", "--path", _verifier(job), *_languages(pair)]
        words += [each for name, value in _text(job).items()
                  for each in ("--" + name.replace("_", "-"), value or "none")]  # fmt: skip
        words += ["--strategy", WAYS[way].strategy]
        words += ["--drafter-path", job.drafter] if WAYS[way].drafter and not job.placed else []
        uses.append(("serve", _command(words)))
    for pair in job.all_pairs if job.converted is not None and job.text else ():
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
    """The converted folder, or a checkpoint that has another name or place."""
    named = job.converted is None or os.path.basename(job.path) != VERIFIER
    return job.path if named else os.path.relpath(str(job.converted))


def _text(job: Job) -> Dict[str, Any]:
    """Arguments that say where dictionaries and subwords are; a converted folder has them."""
    if job.converted is not None:
        return {}
    split = {} if job.subwords is None else {"bpe_codes": job.codes} if job.codes else {"bpe": None}
    return {"data": job.data, **split}


def _in_python(job: Job, pair: str, way: str, beam: int, size: int) -> str:
    source, _, target = pair.partition("-")
    given: Dict[str, Any] = {"source_lang": source, "target_lang": target, **_text(job)}
    given["strategy"] = WAYS[way].strategy
    if WAYS[way].drafter and not job.placed:
        given["drafter"] = job.drafter
    if WAYS[way].edits:
        given["edits"] = job.edits
    given.update(beam=beam, batch_size=size)
    words = [repr(_verifier(job)), *(f"{name}={value!r}" for name, value in given.items())]
    return f"SpeculativeTranslator.from_pretrained({', '.join(words)})"
