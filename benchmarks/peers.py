"""``specdec-bench`` beside other engines, with memory, pictures and one instruction set.

    python benchmarks/peers.py DATA --path VERIFIER --system ... --peers ctranslate2 [--memory] \\
        [--plots FOLDER] [--isa avx2]

Other flags are those of specdec-bench. Each precision of an engine has a process of its own;
``pip install -r benchmarks/requirements.txt`` installs the engines.
"""

import argparse
import functools
import importlib.util
import json
import logging
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

import isa

if __name__ == "__main__":
    isa.hold()

import plots
import torch
from engines import ENGINES, peak_resident, until_at_rest

from fairseq_specdec.bench import session, tables
from fairseq_specdec.bench.cli import Bench
from fairseq_specdec.bench.systems import with_beam
from fairseq_specdec.bench.timing import System
from fairseq_specdec.bench.workload import refuse
from fairseq_specdec.commands.own import reporting
from fairseq_specdec.decoding.strategies import STRATEGIES
from fairseq_specdec.io.flag_values import flag_of

HERE = pathlib.Path(__file__).resolve().parent
# fairseq's generation flags and the values that every engine decodes with.
PLAIN = {"prefix_size": 0, "unkpen": 0, "temperature": 1.0, "unnormalized": False}
LONGEST = 3  # batches that memory is measured with: the longest need most
SPIN_MS = "10"  # that idle threads of Intel's OpenMP spin: each turn waits for the default, 200
tables.TIME += [
    tables.figure("multiply-adds", "multiply_adds_m", "{:.0f} M"),
    tables.figure("weights read", "weights_read_m", "{:.0f} M"),
]
MEMORY = (
    "MB: peak memory (on a GPU, allocated by torch) of a process that loads this system alone and "
    "decodes the longest sentences; on a CPU Python and its libraries are included."
)


def environment():
    """Of processes that import this project and engines.py."""
    paths = [str(HERE.parent), str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"KMP_BLOCKTIME": SPIN_MS, **os.environ, "PYTHONPATH": os.pathsep.join(paths)}


class Process:
    """A process of engines.py; ``title`` names it in errors."""

    def __init__(self, title):
        self.title = title
        self.log = tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace")
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "engines.py")], encoding="utf-8", env=environment(),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
        )  # fmt: skip

    def ask(self, do, **arguments):
        """Call a method of ``engines.Worker``; arguments and result are what JSON can hold."""
        try:
            self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            status = self.process.wait()
            self.log.seek(0)
            raise ValueError(f"{self.title}: ended with {status}: {self.log.read()[-500:].strip()}")
        answer = json.loads(line)
        if "error" in answer:
            raise ValueError(f"{self.title}: {answer['error'][:500]}")
        return answer["result"]

    def close(self):
        """End it: there is nothing more to read."""
        try:
            self.process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
        self.log.close()


class PeerSystem(System):
    """A row that another engine decodes. ``ready``: its version, and the bytes that the process
    used before the model was loaded; ``peak``: the most until it last answered."""

    def __init__(self, plan, name, process, ready, pad):
        super().__init__(plan.name, None, (), versions={name: ready["version"]})
        self.flags, self.process, self.ready, self.pad = plan.generation, process, ready, pad

    def timed(self, sample):
        """One hypothesis per sentence, ``tokens`` only, and the times that the process took."""
        tokens, flags = sample["net_input"]["src_tokens"], self.flags
        rows = [[t for t in row if t != self.pad] for row in tokens.tolist()]
        limit = int(flags.get("max_len_a", 0) * tokens.size(1) + flags.get("max_len_b", 200))
        until_at_rest()  # the threads of what was decoded here before
        answer = self.process.ask("decode", rows=rows, limit=limit, beam=flags["beam"])
        self.peak = answer["peak"]
        hypotheses = [[{"tokens": torch.tensor(out)}] for out in answer["tokens"]]
        return hypotheses, answer["seconds"], answer["cpu"]


def check(names, asked):
    """Refuse engines that cannot do the same, before any model is loaded."""
    main = asked.stock[1]
    flags = main.generation
    refuse({
        f"--peers {','.join(names)}: expected different ones of {', '.join(ENGINES)}":
            not set(names) <= set(ENGINES) or len(set(names)) < len(names),
        f"--peers: no other engine has --task {asked.args.task}; leave it out":
            bool(names) and asked.args.task != session.TASK,
        "--peers: other engines decode no ensembles; give one checkpoint to --path":
            bool(names) and len(main.paths) > 1,
    })  # fmt: skip
    for engine in map(ENGINES.__getitem__, names):
        missing = [each for each in engine.needs if importlib.util.find_spec(each) is None]
        plain = {**PLAIN, **engine.plain}
        other = [flag_of(each) for each, value in plain.items() if flags.get(each, value) != value]
        refuse({
            f"--peers: {engine.title} needs {' and '.join(missing)}; install "
            "benchmarks/requirements.txt, or leave it out": bool(missing),
            f"--peers: {' and '.join(other)} has no counterpart in {engine.title}; leave one out":
                bool(other),
        })  # fmt: skip


def rows(names, asked):
    """A plan for every row of these engines, as ``Bench`` takes them."""
    check(names, asked)
    main, made = asked.stock[1], []

    @functools.cache  # one process for all rows of a format and a workload
    def start(name, kind, workload):
        cfg = workload.task.cfg
        process = Process(f"--peers: {ENGINES[name].title} {kind}, {main.paths[0]}")
        ready = process.ask(
            "load", engine=name, checkpoint=main.paths[0], data=cfg.data.split(os.pathsep)[0],
            source=cfg.source_lang, target=cfg.target_lang, kind=kind, cuda=workload.cuda,
            threads=torch.get_num_threads(), generation=main.generation,
        )  # fmt: skip
        return process, ready

    def make(name, kind, row, workload):
        pad = workload.task.source_dictionary.pad()
        return PeerSystem(row, name, *start(name, kind, workload), pad)

    for name in names:
        engine = ENGINES[name]
        for kind in engine.half_kinds if asked.config.common.fp16 else engine.kinds:
            for beam in (beam for beam in asked.stock if beam <= engine.widest):
                row = main._replace(
                    name=f"{engine.title} {kind} beam {beam}",
                    make=functools.partial(make, name, kind),
                )
                made.append(with_beam(row, beam))
    return made


def memory_of(index, arguments):
    """Load row ``index`` of a command line and decode: the peak in bytes by batch size, and what
    was used before a model was loaded (CPU only)."""
    options, rest = get_parser().parse_known_args(arguments)
    asked, before = session.read(rest), peak_resident()
    plan = [*asked.stock.values(), *rows(options.peers, asked), *asked.plans][index]
    workload = asked.workload(plan.paths)
    workload.one_system = True
    system, peaks = plan.system(workload), {}
    for size in sorted(asked.sizes):  # the peak so far is that of the largest batches so far
        for sample in workload.batches(size)[-LONGEST:]:
            system.decode(sample)
        peaks[size] = torch.cuda.max_memory_allocated() if workload.cuda else peak_resident()
        if isinstance(system, PeerSystem):  # no engine reports a GPU's memory
            peaks[size] = None if workload.cuda else system.peak
    if isinstance(system, PeerSystem):
        before = system.ready["before"]
        system.process.close()
    return {"peaks": peaks, "before": 0 if workload.cuda else before}


def step_weights(decoder):
    """Weights that a step of a Transformer's decoder multiplies a token by: those of its layers but
    for keys and values of the source, which are made once per sentence, and the vocabulary's."""
    once, products = set(), [decoder.output_projection]
    for layer in decoder.layers:
        if layer.encoder_attn is not None:
            once |= {layer.encoder_attn.k_proj, layer.encoder_attn.v_proj}
        products += [part for part in layer.modules() if isinstance(part, torch.nn.Linear)]
    # not of their weights, which would be unpacked
    return sum(part.in_features * part.out_features for part in products if part not in once)


def operations(system, strategy):
    """Millions per sentence, of the decoders of verifier and small model, of greedy decoding and of
    drafting token by token, one sentence at a time (Kim et al. 2023, 7.5.1 and Figure 8): each
    weight with each token, and each weight once per pass."""
    stats, alone = system.stats, all(len(batch) == 1 for batch in system.sentences)
    decoders = [model.decoder for model in system.models]
    if stats is None or not alone or any(d.output_projection is None for d in decoders):
        return {}
    if strategy != "greedy" and not STRATEGIES[strategy].falls_back:
        return {}
    drafting, verifying = 0, sum(map(step_weights, decoders))
    if stats.draft_steps:
        drafting = stats.draft_steps * step_weights(system.generator.drafter.model.decoder)
    decoded = 1e6 * len(system.times[0]) * len(system.tokens)
    return {
        "multiply_adds_m": (verifying * stats.scored + drafting) / decoded,
        "weights_read_m": (verifying * stats.iterations + drafting) / decoded,
    }


class PeersBench(Bench):
    """A run of specdec-bench with what the flags of this benchmark add."""

    def __init__(self, asked, options, arguments, program="peers.py"):
        super().__init__(asked, rows(options.peers, asked))
        self.options, self.arguments = options, list(arguments)
        self.results["settings"]["isa"] = options.isa
        command = shlex.join(["python", f"benchmarks/{program}", *arguments])
        self.results["provenance"]["command"] = command
        self.results["notes"] = [MEMORY] * options.memory
        if options.isa and "onnxruntime" in options.peers:
            self.results["notes"].append(f"ONNX Runtime cannot be held to {options.isa}.")

    def run(self, write):
        try:
            results = super().run(write)
        finally:
            for process in {s.process for s in self.systems if isinstance(s, PeerSystem)}:
                process.close()
        if self.options.plots:
            plots.draw(results, self.options.plots)
        return results

    @functools.cached_property
    def memory(self):
        """``memory_of`` of every row, each in a new process."""
        code = "import json, sys, peers; a = sys.argv[1:]; m = peers.memory_of(int(a[0]), a[1:])"
        command = [sys.executable, "-c", f"{code}; print(json.dumps(m))"]
        found = []
        for index in range(len(self.systems)):
            done = subprocess.run(
                [*command, str(index), *self.arguments], env=environment(), capture_output=True,
                encoding="utf-8",
            )  # fmt: skip
            if done.returncode:
                raise ValueError(f"--memory: row {index}: {done.stderr[-500:].strip()}")
            found.append(json.loads(done.stdout.splitlines()[-1]))
        return found

    def measure_rows(self, references, size):
        made = super().measure_rows(references, size)
        for row, system, plan in zip(made, self.systems, self.plans):
            if plan.generation["beam"] == 1:
                row.update(operations(system, plan.settings.get("strategy")))
        return made

    def measure_size(self, size):
        super().measure_size(size)
        for row, found in zip(self.results["runs"][-1]["rows"], self.options.memory and self.memory
                              or []):  # fmt: skip
            peak = found["peaks"][str(size)]
            row["memory_mb"] = peak and peak / 2**20
            row["memory_before_mb"] = found["before"] / 2**20


def get_parser():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )  # fmt: skip
    parser.add_argument("--peers", type=lambda text: text.split(","), default=[],
                        metavar="ENGINE[,ENGINE]", help=", ".join(ENGINES))  # fmt: skip
    parser.add_argument("--memory", action="store_true", help="peak memory of each system alone")
    parser.add_argument("--plots", metavar="FOLDER", help="write pictures (PNG) here")
    parser.add_argument("--isa", choices=sorted(isa.VARIABLES), help="hold every system to it")
    return parser


def main(arguments, write):
    """Run the benchmark; what ``--json`` writes."""
    options, rest = get_parser().parse_known_args(arguments)
    return PeersBench(session.read(rest), options, arguments).run(write)


if __name__ == "__main__":
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    with reporting("benchmarks/peers.py") as given:
        try:
            main(given, sys.stdout.write)
        except ValueError as error:
            raise SystemExit(f"benchmarks/peers.py: error: {error}") from error
