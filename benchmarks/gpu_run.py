"""The steps of benchmarks/gpu.sh; one that fails does not stop the others."""

import argparse
import importlib.util
import os
import pathlib
import subprocess
import sys
import time
from typing import Any, NamedTuple

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
KEPT = 20_000  # characters of a log
PAIRS = {"ende": ("demo_ende", "en", "de"), "edit": ("demo_edit", "src", "tgt")}


class Step(NamedTuple):
    """A command, and the most seconds that it may take."""

    name: str
    seconds: int
    command: list[Any]
    needed: bool = False


def benchmark(given: argparse.Namespace, name: str, *command: Any) -> list[Any]:
    """A command of Python that writes NAME.json and NAME.md."""
    out = given.folder / name
    files = ["--json", f"{out}.json", "--markdown", f"{out}.md"]
    device = ["--cpu"] if given.device == "cpu" else []
    return [sys.executable, *command, *files, *device]


def speed(given: argparse.Namespace, pair: str, precision: str) -> Step:
    """Stock, other engines and ours on a demo pair, beam 5 with drafts and without too."""
    (folder, source, target), rehearsed = PAIRS[pair], given.device == "cpu"
    data = REPOSITORY / "data-bin" / folder
    drafter = f"--drafter-path {data / 'drafter.pt'}"
    plain = {"beam 5": "--strategy none --beam 5", "greedy": "--strategy greedy"}
    systems = {"iad": "--strategy iad", "iad, beam 5": "--strategy iad --beam 5"}
    if pair == "ende":
        plain["gad"] = f"--strategy gad {drafter}"
        systems = {
            "greedy": plain["greedy"],
            "gad": plain["gad"],
            "gad++": f"--strategy gad++ {drafter}",
            "gad, whole drafts": f"{plain['gad']} --draft-budget 0",
            "gad, beam 5": f"{plain['gad']} --beam 5",
        }
    systems["beam 5"] = plain["beam 5"]
    if not rehearsed:
        systems.update(
            {f"{of}, no graphs": f"{how} --cuda-graphs off" for of, how in plain.items()}
        )
    name = f"{pair}_{precision}"
    flags = [data, "--path", data / "verifier.pt", "-s", source, "-t", target]
    flags += ["--gen-subset", "test", "--limit", given.sentences]
    flags += ["--batch-size", "1,2" if rehearsed else "1,8,32"]
    flags += [part for each in systems.items() for part in ("--system", ": ".join(each))]
    flags += ["--fp16"] if precision == "fp16" else []
    flags += ["--peers", "ctranslate2"] if importlib.util.find_spec("ctranslate2") else []
    return Step(name, 150, benchmark(given, name, REPOSITORY / "benchmarks" / "peers.py", *flags))


def replay(given: argparse.Namespace, size: str) -> Step:
    """The papers' sizes at the acceptance of Xia et al. 2023, Table 2."""
    flags = [REPOSITORY / "benchmarks" / "replay.py", size, "--mean-accepted", 8.23]
    flags += ["--sentences", min(given.sentences, 16), "--batch-size", 1]
    return Step(f"replay_{size}", 90, benchmark(given, f"replay_{size}", *flags))


def steps(given: argparse.Namespace) -> list[Step]:
    """What is done, in this order."""
    rehearsed = given.device == "cpu"
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "gpu", "tests/gpu"]
    figures = [sys.executable, REPOSITORY / "benchmarks" / "gpu_figures.py"]
    where = [given.folder, "--device", given.device]
    plan = [
        Step("check", 60, [*figures, "check", *where], needed=True),
        Step("tests", 300, [sys.executable, *tests]),
        Step("iterations", 120, [*figures, "iterations", *where]),
    ]
    for precision in ("fp32",) if rehearsed else ("fp32", "fp16"):
        plan += [speed(given, "ende", precision), speed(given, "edit", precision)]
    plan += [replay(given, size) for size in (("base",) if rehearsed else ("base", "12+2", "big"))]
    return plan


def run(step: Step, left: float, folder: pathlib.Path) -> str:
    """Do a step and keep the end of its log. Returns its result in words."""
    if left < 5:
        return "no time left"
    log = folder / f"{step.name}.log"
    environment = dict(os.environ, GPU_FIGURES=str(folder / "tests.json"))
    with log.open("wb") as file:
        try:
            subprocess.run(
                list(map(str, step.command)), cwd=str(REPOSITORY), stdout=file, check=True,
                stderr=subprocess.STDOUT, timeout=min(step.seconds, left), env=environment,
            )  # fmt: skip
            result = "done"
        except subprocess.TimeoutExpired:
            result = "took too long"
        except subprocess.CalledProcessError as error:
            result = f"failed ({error.returncode})"
    text = log.read_text(encoding="utf-8", errors="replace")
    log.write_text(text[-KEPT:], encoding="utf-8")
    return result


def summary(folder: pathlib.Path, done: list[list[str]]) -> None:
    """Everything worth reading, in gpu.md."""
    parts = ["# Figures of a GPU", "| step | | seconds |\n|---|---|--:|"]
    parts[-1] += "".join("\n| {} | {} | {} |".format(*row) for row in done)
    for name, _, _ in done:
        page = folder / f"{name}.md"
        if page.exists():
            parts += [f"## {name}", page.read_text(encoding="utf-8").strip()]
    (folder / "gpu.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--sentences", type=int)
    given = parser.parse_args()
    given.sentences = given.sentences or (4 if given.device == "cpu" else 100)
    end = time.monotonic() + 60 * given.minutes
    done = []
    for step in steps(given):
        began = time.monotonic()
        result = run(step, end - began, given.folder)
        done.append([step.name, result, f"{time.monotonic() - began:.0f}"])
        print("\t".join(done[-1]), flush=True)
        summary(given.folder, done)
        if step.needed and result != "done":
            print((given.folder / f"{step.name}.log").read_text(encoding="utf-8")[-2000:])
            return 1
    print(f"{given.folder / 'gpu.md'}")
    return int(any(result != "done" for _, result, _ in done))


if __name__ == "__main__":
    sys.exit(main())
