"""What is accelerated, the commands of the steps, and those that are copied from the report."""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..commands.words import ALLOCATION, distill_flags, one_pair, training_flags, words_of
from ..data.folder import splits
from ..hub.described import VERIFIER
from .verifier import Fitting

PYTHON = sys.executable
PLUGIN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BLOCK_SIZE = 10


# Ways to decode whose speeds are compared, with their strategies; the output is the same.
GAD, EDITS = "gad", "iad with edits"  # with the drafter, and with the likely edits
WAYS = {"greedy": "greedy", GAD: "gad", "iad": "iad", EDITS: "iad"}


class Job(NamedTuple):
    """What is accelerated, and how."""

    data: str  # folder that fairseq-preprocess wrote
    path: str  # the verifier's checkpoint
    out: str
    # source, target: languages
    source: str
    target: str
    beam: int  # of the distillation
    cpu: bool
    bf16: bool  # train in bf16, on a CPU that computes in it
    max_tokens: int  # of a training batch
    threads: int
    eval_sentences: int  # validation sentences on which accepted tokens are measured
    decode_beam: int = 1  # with which the model is to be used, besides 1
    batch_sizes: tuple[int, ...] = (1,)  # in which it is to be used
    cluster: str | None = None  # address of the Ray cluster that distils; None: this process
    workers: int | None = None  # that distil at once; None: all that the cluster has room for
    # of a verifier with language tokens: its task, as flags, and the pairs that the drafter is for
    # (none where the task has one)
    task: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()
    # of a model of transformers: the folder that specdec-convert hf wrote, its decoding flags
    converted: str | None = None
    generation: Mapping[str, str] = {}
    placed: str | None = None  # the drafter in that folder
    text: str | None = None  # plain text for validation, without its language
    subwords: str | None = None  # kind of those in the dictionary; None: it holds words
    codes: str | None = None  # file of their model, where one is found
    one_dictionary: bool = False  # of source and output, so that the source may be the draft
    ways: tuple[str, ...] = ("greedy", "gad")  # of ``WAYS``, that are measured in the end

    @property
    def uses(self) -> list[tuple[str, str, int]]:
        """(name, pair, batch size) of each use that is measured."""
        return [
            (f"{pair}, batches of {size}" if self.pairs else str(size), pair, size)
            for pair in self.all_pairs
            for size in self.batch_sizes
        ]

    @property
    def all_pairs(self) -> tuple[str, ...]:
        """The pairs that the drafter is for, also where it is one."""
        return self.pairs or (f"{self.source}-{self.target}",)

    def of_pair(self, pair: str, task: str = "translation_specdec") -> list[str]:
        """The flags that decode a pair. ``task``: where the verifier's own is fairseq's
        translation."""
        source, _, target = pair.partition("-")
        if self.task:
            return [*self.task, "-s", source, "-t", target]
        return one_pair(source, target, task)

    def of_all(self, task: str = "translation_specdec") -> list[str]:
        """The flags that distil and train all pairs at once."""
        return list(self.task) if self.pairs else self.of_pair(f"{self.source}-{self.target}", task)

    @property
    def beams(self) -> list[int]:
        """The beams that are measured."""
        return sorted({1, self.decode_beam})

    def file(self, *names: str) -> str:
        """A path below ``out``."""
        return os.path.join(self.out, *names)

    @property
    def drafter(self) -> str:
        """The drafter's checkpoint."""
        return self.file("drafter.pt")

    def device(self, gpu: str = "") -> list[str]:
        """The flag of a CPU; that of a GPU where there is one."""
        return ["--cpu"] if self.cpu else [gpu] if gpu else []


def distill(job: Job, dest: str, limit: int | None, shared: bool = True) -> list[str]:
    """Distil ``limit`` sentences of the training split or all, ``shared`` by the cluster."""
    # Small batches use less memory, and on a CPU larger ones are no quicker.
    own = ["--max-tokens", "2048" if job.cpu else "8192"]
    own += ["--skip-invalid-size-inputs-valid-test", *job.device("--fp16")]
    own += ["--limit", str(limit)] if limit is not None else []
    if shared and job.cluster is not None:
        own += ["--ray", job.cluster]
        own += ["--ray-workers", str(job.workers)] if job.workers is not None else []
    # Outputs that run on are cut off sooner than in decoding, and dropped.
    own += words_of({k: v for k, v in job.generation.items() if not k.startswith("--max-len")})
    words = distill_flags(own, PLUGIN, job.path, dest, job.of_all(), job.beam)
    return [PYTHON, "-m", "fairseq_specdec.data.distill", job.data, *words]


def train(job: Job, fitting: Fitting, until: int, total: int, data: str = "distilled") -> list[str]:
    """Train the drafter up to update ``until``; the learning rate falls to 0 at ``total``.
    ``data``: a folder below ``out``."""
    precision = ["--bf16"] if job.bf16 else []
    warmup = max(1, min(400, total // 10))
    own = [
        "--arch", fitting.arch, *fitting.flags,
        "--block-size", str(BLOCK_SIZE), "--num-cuts", "4",
        "--criterion", "glancing_block_loss", "--label-smoothing", "0",
        "--glancing-start", "0", "--glancing-stop", "0", "--block-loss-decay", "0.85",
        "--eval-verifier", job.path, "--eval-sentences", str(job.eval_sentences),
        "--best-checkpoint-metric", "accepted_tokens", "--maximize-best-checkpoint-metric",
        "--clip-norm", "10.0", "--lr", "2e-3", "--warmup-updates", warmup, "--max-update", until,
        "--max-tokens", job.max_tokens, "--max-valid-steps", "8", "--data-buffer-size", "0",
        "--skip-invalid-size-inputs-valid-test", "--save-interval-updates", until,
        "--validate-interval-updates", until, "--no-epoch-checkpoints", "--seed", "1",
        "--log-format", "json", "--log-interval", "10",
    ]  # fmt: skip
    return [
        PYTHON, "-m", "fairseq_cli.train", job.file(data), "--user-dir", PLUGIN,
        *job.of_all("translation"), *job.device("--fp16"), *precision,
        *training_flags(own, job.file("training"), total),
    ]  # fmt: skip


def time_training(job: Job, fitting: Fitting, data: str, updates: int) -> list[str]:
    """Make a few updates that are not kept, and log how long they take."""
    words = train(job, fitting, updates, updates, data)
    return [*words, "--no-save", "--disable-validation", "--log-interval", str(updates // 2)]


def shortlist(job: Job) -> list[str]:
    """Give the drafter its list of words, from what it was trained on."""
    return [
        PYTHON, "-m", "fairseq_specdec.data.shortlist", job.file("distilled"),
        *([] if job.pairs else ["-s", job.source, "-t", job.target]),
        "--drafter-path", job.drafter, "--out", job.drafter, "--force",
    ]  # fmt: skip


def edits(job: Job) -> list[str]:
    """Learn which edits the verifier nearly always makes, from what it wrote."""
    return [
        PYTHON, "-m", "fairseq_specdec.data.edits", job.file("distilled"), "-s", job.source,
        "-t", job.target, "--out", job.file("edits.tsv"), "--force",
    ]  # fmt: skip


def strategy(job: Job, way: str) -> list[str]:
    """Decoding flags of one of ``WAYS``."""
    words = ["--strategy", WAYS[way]]
    words += ["--drafter-path", job.placed or job.drafter] if way == GAD else []
    return words + (["--edits", job.file("edits.tsv")] if way == EDITS else [])


def row_of(way: str, beam: int) -> str:
    """The name of a way's row in the table of ``specdec-bench``."""
    return way if beam == 1 else f"{way}, beam {beam}"


def measure(
    job: Job, pair: str, ways: Sequence[str], sizes: Sequence[int], limit: int
) -> list[str]:
    """Measure ways to decode a pair against stock fairseq on validation sentences, at all beams."""
    systems: list[str] = []
    for beam in job.beams:
        for way in ways:
            flags = _command([*strategy(job, way), "--beam", beam])
            systems += ["--system", f"{row_of(way, beam)}: {flags}"]
    return [
        PYTHON, "-m", "fairseq_specdec.bench.cli", job.data, "--path", job.path,
        *job.of_pair(pair), *words_of(job.generation), "--gen-subset", "valid",
        "--batch-size", ",".join(map(str, sizes)),
        "--stock-beams", ",".join(map(str, sorted({1, 5, job.decode_beam}))),
        "--limit", str(limit), "--threads", str(job.threads),
        "--json", job.file("measured.json"), *job.device(), *systems,
    ]  # fmt: skip


def environment(job: Job) -> Any:
    """Environment of the steps' processes: this package first, few threads."""
    paths = [os.path.dirname(PLUGIN), os.environ.get("PYTHONPATH", "")]
    threads = str(job.threads)
    return dict(
        os.environ, PYTHONPATH=os.pathsep.join(filter(None, paths)), OMP_NUM_THREADS=threads,
        MKL_NUM_THREADS=threads, **ALLOCATION,
    )  # fmt: skip


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
        "--beam", beam, "--batch-size", size, *strategy(job, way), *job.device(),
    ]  # fmt: skip
    return _command(words)


def further(job: Job, fastest: Mapping[str, str]) -> list[tuple[str, str]]:
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
        words += ["--strategy", WAYS[way]]
        words += ["--drafter-path", job.drafter] if way == GAD and not job.placed else []
        uses.append(("serve", _command(words)))
    for pair in job.all_pairs if job.converted is not None and job.text else ():
        words = ["specdec-bench", os.path.relpath(str(job.converted))]
        words += ["--path", job.path] if os.path.basename(job.path) != VERIFIER else []
        words += [*_languages(pair), "--text", f"{job.text}.{pair.partition('-')[0]}"]
        words += job.device()
        for way in job.ways:
            words += ["--system", f"{way}: {_command(strategy(job, way))}"]
        uses.append(("measure", _command(words)))
    return uses


def _command(words: Sequence[Any]) -> str:
    return " ".join(shlex.quote(str(word)) for word in words)


def _languages(pair: str) -> list[str]:
    source, _, target = pair.partition("-")
    return ["--source-lang", source, "--target-lang", target]


def _verifier(job: Job) -> str:
    """The converted folder, or a checkpoint that has another name or place."""
    named = job.converted is None or os.path.basename(job.path) != VERIFIER
    return job.path if named else os.path.relpath(str(job.converted))


def _text(job: Job) -> dict[str, Any]:
    """Arguments that say where dictionaries and subwords are; a converted folder has them."""
    if job.converted is not None:
        return {}
    split = {} if job.subwords is None else {"bpe_codes": job.codes} if job.codes else {"bpe": None}
    return {"data": job.data, **split}


def _in_python(job: Job, pair: str, way: str, beam: int, size: int) -> str:
    source, _, target = pair.partition("-")
    given: dict[str, Any] = {"source_lang": source, "target_lang": target, **_text(job)}
    given["strategy"] = WAYS[way]
    if way == GAD and not job.placed:
        given["drafter"] = job.drafter
    if way == EDITS:
        given["edits"] = job.file("edits.tsv")
    given.update(beam=beam, batch_size=size)
    words = [repr(_verifier(job)), *(f"{name}={value!r}" for name, value in given.items())]
    return f"SpeculativeTranslator.from_pretrained({', '.join(words)})"
