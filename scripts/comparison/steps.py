"""Every strategy on one verifier in one table."""

import shlex
from typing import Any

from blockwise.steps import chosen
from launch import Devices
from models import WORDS_AND_SIZES
from step import Step, run_recipe

# Drafts as the papers': whole blocks, in the verifier's precision. A row without these flags is
# called planned: as much is drafted as pays here, which is this engine's default.
WHOLE = ["--draft-budget", "0"]
WHOLE_OF_MODEL = [*WHOLE, "--drafter-dtype", "same"]
WHOLE_BLOCKS = [*WHOLE_OF_MODEL, "--draft-confidence", "0"]


def train(step: Step) -> None:
    """An action: train the models of the recipes blockwise and bild, each with its own settings."""
    chosen(step.settings)
    training = ("01_small", "02_calibrate", "03_align", "04_early_exit")
    run_recipe(step, "blockwise", "01_heads", OUT=step["BLOCKWISE"])
    run_recipe(step, "bild", *training, OUT=step["BILD"])


def systems(step: Step) -> dict[str, list[Any]]:
    """Flags of each row of the table, by its name."""
    settings, rows = step.settings, {"greedy": ["--strategy", "greedy"]}
    for heads in chosen(settings):
        name = f"blockwise k={heads.k} {heads.way}"
        name += " distilled" * (heads.corpus == "distilled")
        path = f"{settings['BLOCKWISE']}/{heads.name}/model.pt"
        rows[name] = ["--strategy", "blockwise", "--path", path, *WHOLE]
    small, aligned, early = (
        f"{settings['BILD']}/{name}/model.pt" for name in ("small", "aligned", "early_exit")
    )
    thresholds = ["--alpha-fb", settings["ALPHA_FB"], "--alpha-rb", settings["ALPHA_RB"]]
    exits = ["--alpha-fb", settings["EXIT_ALPHA_FB"], "--alpha-rb", settings["EXIT_ALPHA_RB"]]
    for name, path in (("unaligned", small), ("aligned", aligned)):
        rows[f"bild {name}"] = ["--strategy", "bild", "--drafter-path", path, *thresholds]
    rows["bild-early-exit"] = ["--strategy", "bild-early-exit", *exits, "--path", early]
    sps = ["--strategy", "sps", "--drafter-path", aligned, "--block-size", step["SPS_BLOCK"]]
    rows["sps"], rows["sps planned"] = [*sps, *WHOLE_OF_MODEL], sps
    relaxed = ["--top-beta", step["TOP_BETA"], "--tau", step["TAU"]]
    ways = {"gad": ["--strategy", "gad"], "gad++": ["--strategy", "gad++", *relaxed]}
    for name, setting in (("", "DRAFTER"), (" separate", "SEPARATE_DRAFTER")):
        own = [*settings.words("GAD_FLAGS"), "--drafter-path", step[setting]]
        for way, words in ways.items() if step[setting] else ():
            rows[way + name] = [*words, *own, *WHOLE_BLOCKS]
            rows[f"{way}{name} planned"] = [*words, *own]
    if step["SEPARATE_DRAFTER"]:
        alone = ["--strategy", "nar", "--drafter-path", step["SEPARATE_DRAFTER"]]
        rows["nar"] = [*alone, "--drafter-dtype", "same"]
    return rows


def table(step: Step) -> None:
    """An action: measure every system, in turns."""
    step.need("specdec-bench")
    out, rows, pair = step.path("OUT"), systems(step), (step["SRC"], step["TGT"])
    files = [out / f"comparison.{end}" for end in ("json", "md")]
    paths = [step["VERIFIER"]]
    for words in rows.values():
        paths += [path for flag, path in zip(words, words[1:]) if flag.endswith("-path")]
    test = f"{step['BIN']}/{step['SUBSET']}.{'-'.join(pair)}"
    inputs = [*dict.fromkeys(paths), *(f"{test}.{side}.bin" for side in pair)]
    record = out / "provenance.json"
    if step.finished(record, inputs):
        return
    step.make(out)
    words = ["--cpu"] if Devices(step).cpu else []
    words += ["--threads", step.environment["OMP_NUM_THREADS"]]  # as Devices chose
    words += ["--limit", step["SENTENCES"]] if step.settings.number("SENTENCES") else []
    words += step.settings.words("LENGTH_FLAGS") + step.settings.words("BENCH_FLAGS")
    for name, own in rows.items():
        words += ["--system", f"{name}: {shlex.join(own)}"]
    step.run(
        "specdec-bench", step["BIN"], "--path", step["VERIFIER"], "-s", pair[0], "-t", pair[1],
        "--gen-subset", step["SUBSET"], "--batch-size", "1", *WORDS_AND_SIZES, *words,
        "--json", files[0], "--markdown", files[1], log=out / "comparison.log", mode="w",
    )  # fmt: skip
    step.call("measure.show", files[1])
    step.record(record, inputs, *files)
