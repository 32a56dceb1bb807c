"""What is accelerated, what was found so far, and the commands: of steps, and to decode with."""

import dataclasses
import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from fairseq_specdec.errors import UsageError

from ..commands.words import ALLOCATION, distill_flags, training_flags, words_of
from ..data.folder import splits
from ..engine.torch_layers import computes_in_bf16
from ..hub.converted import VERIFIER
from ..io.atomic import read_json, write_json

PYTHON = sys.executable
PLUGIN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOCK, DRAFTER = "accelerate.lock", "drafter.pt"


# Strategies whose speeds are compared; the output is the same.
GAD = "gad"  # with the drafter
WAYS = ("greedy", GAD, "iad")


class State:
    """Steps that are done and what they found. ``settings``: those that stay the same."""

    def __init__(self, folder: str, settings: Mapping[str, Any]) -> None:
        self._path, self._settings = os.path.join(folder, "state.json"), settings
        begun = os.path.exists(self._path)
        if not begun and os.path.isdir(folder) and set(os.listdir(folder)) - {LOCK}:
            problem = f"{folder} exists and was not made by this command"
            raise UsageError("--out", problem, "choose another")
        os.makedirs(folder, exist_ok=True)
        before = read_json(self._path) if begun else {}
        self._steps: dict[str, dict[str, Any]] = before.get("steps", {})
        # until a step has begun nothing is made of them
        for name, value in before.get("settings", {}).items() if self._steps else ():
            if settings.get(name) != value:
                given = f"--{name.replace('_', '-')} {settings.get(name)}"
                problem = f"{folder} was begun with {value}"
                raise UsageError(given, problem, "give that, or another --out")
        self._write()

    def _write(self) -> None:
        write_json(self._path, {"settings": self._settings, "steps": self._steps})

    def results(self, step: str) -> dict[str, Any]:
        """What a step has found so far; {} if it has not begun."""
        return dict(self._steps.get(step, {}))

    def done(self, step: str, **found: Any) -> bool:
        """Whether a step is complete, and found these."""
        return {"done": True, **found}.items() <= self.results(step).items()

    def note(self, step: str, done: bool = True, **results: Any) -> None:
        """Record what a step has found, and whether it is complete."""
        self._steps[step] = dict(self.results(step), done=done, **results)
        self._write()


@dataclasses.dataclass
class Job:
    """What is accelerated, and how."""

    args: Namespace  # the command line
    state: State  # what the steps have found
    data: str  # folder that fairseq-preprocess wrote
    path: str  # the verifier's checkpoint
    out: str
    pairs: Sequence[str]  # that the drafter is for
    cpu: bool
    # of a verifier with language tokens: its task, as flags, and whether that has several pairs
    task: Sequence[str] = ()
    several: bool = False
    # of a model of transformers: the folder that specdec-convert hf wrote, its decoding flags
    converted: str | None = None
    generation: Mapping[str, str] = dataclasses.field(default_factory=dict)
    subwords: str | None = None  # kind of those in the dictionary; None: it holds words
    one_dictionary: bool = False  # of source and output, so that the source may be the draft
    # the drafter that fits: flags of fairseq-train, and a description
    drafter: Sequence[str] = ()
    described: str = ""
    layers: int = 0  # of the verifier's decoder
    hours: float | None = None  # of distilling and training together; None: by --updates
    sentences: int = 0  # that are measured in the end
    ways: Sequence[str] = ("greedy", GAD)  # of ``WAYS``, that are measured in the end
    placed: str | None = None  # the drafter in the converted folder
    lists: bool = False  # a list of frequent tokens spares it reading its large vocabulary

    @property
    def uses(self) -> list[tuple[str, int]]:
        """The pairs and batch sizes that are measured."""
        return list(product(self.pairs, self.args.batch_sizes))

    def of_pair(self, pair: str, task: str = "translation_specdec") -> list[str]:
        """The flags that decode a pair. ``task``: where the verifier's is fairseq's translation."""
        return [*(self.task or ("--task", task)), *languages(pair)]

    def of_all(self, task: str = "translation_specdec") -> list[str]:
        """The flags that distil and train all pairs at once."""
        return list(self.task) if self.several else self.of_pair(self.pairs[0], task)

    @property
    def beams(self) -> list[int]:
        """The beams that are measured."""
        return sorted({1, self.args.decode_beam})

    def file(self, *names: str) -> str:
        """A path below ``out``."""
        return os.path.join(self.out, *names)

    def device(self, gpu: str = "") -> list[str]:
        """The flag of a CPU; that of a GPU where there is one."""
        return ["--cpu"] if self.cpu else [gpu] if gpu else []


def languages(pair: str) -> list[str]:
    """The flags of a pair's languages."""
    source, _, target = pair.partition("-")
    return ["-s", source, "-t", target]


def distill(job: Job, data: str, dest: str, limit: int | None, shared: bool = True) -> list[str]:
    """Distil ``limit`` sentences of the training split or all, ``shared`` by the cluster."""
    # Small batches use less memory, and on a CPU larger ones are no quicker.
    own = ["--max-tokens", "2048" if job.cpu else "8192", *job.device("--fp16")]
    own += ["--skip-invalid-size-inputs-valid-test", *words_of({"--limit": limit})]
    if shared:
        own += words_of({"--ray": job.args.ray, "--ray-workers": job.args.ray_workers})
    # Outputs that run on are cut off earlier than in decoding, and dropped.
    own += words_of({k: v for k, v in job.generation.items() if not k.startswith("--max-len")})
    words = distill_flags(own, PLUGIN, job.path, dest, job.of_all(), job.args.beam)
    return [PYTHON, "-m", "fairseq_specdec.data.distill", data, *words]


def train(job: Job, until: int, total: int, data: str = "distilled") -> list[str]:
    """Train the drafter up to update ``until``; the learning rate falls to 0 at ``total``.
    ``data``: a folder below ``out``."""
    precision = ["--bf16"] if job.cpu and computes_in_bf16() else []
    own = [
        *job.drafter, "--block-size", "10", "--num-cuts", "4",
        "--criterion", "glancing_block_loss", "--label-smoothing", "0",
        "--glancing-start", "0", "--glancing-stop", "0", "--block-loss-decay", "0.85",
        "--eval-verifier", job.path, "--eval-sentences", job.args.eval_sentences,
        "--best-checkpoint-metric", "accepted_tokens", "--maximize-best-checkpoint-metric",
        "--clip-norm", "10.0", "--lr", "2e-3", "--warmup-updates", max(1, min(400, total // 10)),
        "--max-update", until, "--max-tokens", job.args.max_tokens, "--max-valid-steps", "8",
        "--data-buffer-size", "0", "--skip-invalid-size-inputs-valid-test",
        "--save-interval-updates", until, "--validate-interval-updates", until,
        "--no-epoch-checkpoints", "--seed", "1", "--log-format", "json", "--log-interval", "10",
    ]  # fmt: skip
    return [
        PYTHON, "-m", "fairseq_cli.train", job.file(data), "--user-dir", PLUGIN,
        *job.of_all("translation"), *job.device("--fp16"), *precision,
        *training_flags(own, job.file("training"), total),
    ]  # fmt: skip


def learn(job: Job, module: str, *words: str) -> list[str]:
    """A module of ``data`` learns from what the verifier wrote."""
    pair = [] if job.several else languages(job.pairs[0])
    start = [PYTHON, "-m", f"fairseq_specdec.data.{module}", job.file("distilled")]
    return [*start, *pair, *words, "--force"]


def strategy(job: Job, way: str, pair: str, beam: int = 1) -> list[str]:
    """Decoding flags of one of ``WAYS``, with the list that the distillation wrote."""
    drafter = ["--drafter-path", job.placed or job.file(DRAFTER)] if way == GAD else []
    listed = job.file("distilled", f"vocabulary.{pair}.txt")
    reads = job.lists and way == "greedy" and beam == 1 and os.path.isfile(listed)
    return ["--strategy", way, *drafter, *(["--vocabulary-list", listed] if reads else [])]


def row_of(way: str, beam: int) -> str:
    """The name of a way's row in the table of ``specdec-bench``."""
    return way if beam == 1 else f"{way}, beam {beam}"


def measure(
    job: Job, pair: str, ways: Sequence[str], sizes: Sequence[int], limit: int
) -> list[str]:
    """Measure ways to decode a pair against stock fairseq on validation sentences, at all beams."""
    systems: list[str] = []
    for beam, way in product(job.beams, ways):
        flags = _command([*strategy(job, way, pair, beam), "--beam", beam])
        systems += ["--system", f"{row_of(way, beam)}: {flags}"]
    return [
        PYTHON, "-m", "fairseq_specdec.bench.cli", job.data, "--path", job.path,
        *job.of_pair(pair), *words_of(job.generation), "--gen-subset", "valid",
        "--batch-size", ",".join(map(str, sizes)), "--limit", str(limit),
        "--threads", str(job.args.threads), "--json", job.file("measured.json"), *job.device(),
        *systems,
    ]  # fmt: skip


def environment(job: Job) -> dict[str, str]:
    """Environment of the steps' processes: this package first, few threads."""
    paths = [os.path.dirname(PLUGIN), os.environ.get("PYTHONPATH", "")]
    own = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), **ALLOCATION}
    own.update(dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(job.args.threads)))
    return {**os.environ, **own}


def here(path: str) -> str:
    """A path below the current folder relative to it, any other absolute."""
    relative = os.path.relpath(path)
    return os.path.abspath(path) if relative.split(os.sep)[0] == os.pardir else relative


def decode(job: Job, pair: str, size: int, beam: int, way: str) -> str:
    """How to decode a pair from now on: a text with a converted model, else the test split of DATA,
    or valid where it has none."""
    flags = strategy(job, way, pair, beam)
    if job.converted is not None:
        return _of_model(job, "specdec-translate", pair, *flags, "--beam", beam, "--lines", size)
    subwords = [job.subwords] if job.subwords not in (None, "subword_nmt") else []
    return _command([
        "fairseq-generate", job.data, "--user-dir", here(PLUGIN), *job.of_pair(pair),
        "--path", job.path, "--gen-subset", "test" if "test" in splits(job.data, pair) else "valid",
        *(["--remove-bpe", *subwords] if job.subwords else []),
        "--beam", beam, "--batch-size", size, *flags, *job.device(),
    ])  # fmt: skip


def further(job: Job, fastest: Mapping[str, str]) -> list[tuple[str, str]]:
    """What else the models are used with: (what for, command). ``fastest``: the way of each pair.
    None of a verifier with language tokens that was not converted, which fairseq alone decodes."""
    programs = {"translate text": "specdec-translate", "serve": "specdec-serve"}
    if job.converted is not None:  # ``decode`` names the other
        del programs["translate text"]
    elif job.task:
        return []
    return [
        (use, _of_model(job, name, pair, *strategy(job, way, pair)))
        for (pair, way), (use, name) in product(fastest.items(), programs.items())
    ]


def _command(words: Iterable[Any]) -> str:
    return shlex.join(map(str, words))


def _of_model(job: Job, program: str, pair: str, *flags: Any) -> str:
    """A command that takes MODEL; a converted folder has its dictionaries."""
    model = job.path
    if job.converted is not None and os.path.basename(model) == VERIFIER:
        model = os.path.relpath(job.converted)
    data = [] if job.converted else ["--data", job.data]
    return _command([program, model, *languages(pair), *data, *flags])
