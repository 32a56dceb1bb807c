"""Measure this processor: a column of RESULTS.md, kept in cpu.json.

    python benchmarks/processors.py NAME [--isa avx2] [--limit N] [--only RUN]

NAME names the processor, as in zen3 or emerald-rapids; ``--isa`` is appended to it. One thread,
systems in turns, on an otherwise idle core: about 20 minutes. ``make figures NAME=...`` calls it.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import result_tables

HERE = pathlib.Path(__file__).resolve().parent
FIGURES = ("ms", "cpu", "identical")
ENDE = "data-bin/demo_ende"
COMMON = "--tokenizer moses --remove-bpe --cpu --gen-subset test".split()
DRAFTER = f"--drafter-path {ENDE}/drafter.pt"
INT8 = "--verifier-dtype int8"
BENCH = [str(HERE / "peers.py")]
PEERS = ["--peers", "ctranslate2,onnxruntime"]
ENDE_SYSTEMS = {
    "greedy": "--strategy greedy",
    "gad": f"--strategy gad {DRAFTER}",
    "gad++": f"--strategy gad++ {DRAFTER}",
    "iad": "--strategy iad",
    "beam 5": "--strategy greedy --beam 5",
    "greedy, int8": f"--strategy greedy {INT8}",
    "gad, int8": f"--strategy gad {DRAFTER} {INT8}",
    "beam 5, int8": f"--strategy greedy --beam 5 {INT8}",
}
EDIT_SYSTEMS = {
    "greedy": "--strategy greedy",
    "iad": "--strategy iad",
    "greedy, int8": f"--strategy greedy {INT8}",
    "iad, int8": f"--strategy iad {INT8}",
}
DRAFTING_SYSTEMS = {
    **{name: flags for name, flags in ENDE_SYSTEMS.items() if not name.startswith("beam")},
    "gad++, int8": f"--strategy gad++ {DRAFTER} {INT8}",
    "iad, int8": f"--strategy iad {INT8}",
}
REPLAY = [str(HERE / "replay.py"), "base", "--cpu"]
DRAFTS = ["--mean-accepted", "8.23", "--strategies", "greedy,gad,planned"]


def pair(folder, languages, sizes, systems, peers=()):
    """The arguments of a run on a demo pair."""
    source, target = languages
    rows = [part for name, flags in systems.items() for part in ("--system", f"{name}: {flags}")]
    return [
        *(*BENCH, folder, "--path", f"{folder}/verifier.pt", "-s", source, "-t", target),
        *(*COMMON, *peers, "--batch-size", sizes, *rows),
    ]


def commands(limit):
    """What is measured, by name."""
    few = ["--limit", str(limit)]
    ende = (ENDE, ("en", "de"))
    edit = ("data-bin/demo_edit", ("src", "tgt"))
    return {
        "translation": [*pair(*ende, "1,32", ENDE_SYSTEMS, PEERS), *few],
        "correction": [*pair(*edit, "1", EDIT_SYSTEMS, PEERS), *few],
        "drafting, translation": [*pair(*ende, "1,2,4,8,32", DRAFTING_SYSTEMS), *few],
        "drafting, correction": [*pair(*edit, "1,2,4,8,32", EDIT_SYSTEMS), *few],
        "papers' size": [*REPLAY, *DRAFTS, *PEERS],
        "papers' size, int8": [*REPLAY, *DRAFTS, *INT8.split(), "--drafter-dtype", "int8"],
        "base shape, int8, 32 at a time": [
            *(*REPLAY, "--sentences", "32", "--batch-size", "32", *PEERS),
            *("--strategies", "greedy", *INT8.split()),
        ],
    }  # fmt: skip


def measured(arguments, repeats):
    """The results of a command of Python."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "results.json"
        command = [sys.executable, *arguments]
        command += ["--repeats", str(repeats), "--json", str(path)]
        subprocess.run(command, check=True, cwd=HERE.parent, stdout=subprocess.DEVNULL)
        return json.loads(path.read_text("utf-8"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", help="of the processor")
    parser.add_argument("--isa", choices=["avx2"], help="hold every system to it")
    parser.add_argument("--limit", type=int, default=60, help="sentences of each pair")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="measure runs whose name begins so")
    args = parser.parse_args()
    held = ["--isa", args.isa] if args.isa else []
    name = "-".join([args.name, *held[1:]])
    for run, arguments in commands(args.limit).items():
        if run.startswith(args.only):
            found = result_tables.record(measured([*arguments, *held], args.repeats), *FIGURES)
            summary = result_tables.read(result_tables.CPU)
            summary["processors"].setdefault(name, {})[run] = found
            result_tables.save(result_tables.CPU, summary)
            result_tables.write()
            sys.stderr.write(f"{run}: done\n")


if __name__ == "__main__":
    main()
