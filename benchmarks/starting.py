"""How soon the first sentence is translated after a process begins, and what memory that takes.

    python benchmarks/starting.py nllb-600m|demo_ende|SHAPE [--peers] >> benchmarks/starting.md

Every system is started so many times, in turns, in a process of its own on one thread, its files in
the page cache. Shapes (shapes.py) have random weights that half precision holds, and say 30 words.
``--peers`` needs ctranslate2 and transformers: each starts from the model that its own converter
wrote.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

PARTS = ("imports", "model", "sentence")
WORDS = 30  # of a random sentence
DEMO = "Open the file that you want to edit."


def ours(path: str, number_format: str, text: str, length: int | None, mark: Any) -> Any:
    from fairseq_specdec.hub import SpeculativeTranslator

    mark("imports")
    flags: dict[str, Any] = {"bpe": None, "tokenizer": None, "min_len": length}
    flags = {} if length is None else {**flags, "max_len_b": length}
    translator = SpeculativeTranslator.from_pretrained(
        path, strategy="greedy", device="cpu", verifier_dtype=number_format, **flags
    )
    mark("model")
    return len(translator.translate(text).tokens)


def ctranslate2(path: str, number_format: str, text: str, length: int | None, mark: Any) -> Any:
    import ctranslate2

    mark("imports")
    model = ctranslate2.Translator(path, compute_type=number_format, intra_threads=1)
    mark("model")
    limits = {"max_decoding_length": (length or 200) + 1, "min_decoding_length": length or 1}
    (result,) = model.translate_batch([text.split()], beam_size=1, **limits)
    return len(result.hypotheses[0])


def transformers(path: str, number_format: str, text: str, length: int | None, mark: Any) -> Any:
    import torch
    from transformers import AutoModelForSeq2SeqLM

    torch.set_num_threads(1)
    mark("imports")
    model = AutoModelForSeq2SeqLM.from_pretrained(path).eval()
    mark("model")
    limits = {"max_new_tokens": (length or 200) + 1, "min_new_tokens": length or 1}
    with torch.inference_mode():
        tokens = torch.tensor([[*map(int, text.split()), 2]])
        output = model.generate(input_ids=tokens, num_beams=1, do_sample=False, **limits)
    return output.size(1) - 2


ENGINES: dict[str, Callable[..., Any]] = {
    "fairseq_specdec": ours, "CTranslate2": ctranslate2, "transformers": transformers,
}  # fmt: skip


def started(asked: dict[str, Any], began: float) -> dict[str, Any]:
    """Seconds of wall and CPU time from the process's begin to the end of each part, tokens, and
    MiB of memory: ``peak``, and at the end ``own`` and that of ``files``."""
    figures: dict[str, Any] = {}

    def mark(part: str) -> None:
        figures[part] = (time.monotonic() - began, sum(os.times()[:2]))

    engine = ENGINES[asked.pop("engine")]
    figures["tokens"] = engine(mark=mark, **asked)
    mark("sentence")
    with open("/proc/self/status", encoding="utf-8") as lines:
        status = dict(line.split(":", 1) for line in lines)
    for name, field in (("peak", "VmHWM"), ("own", "RssAnon"), ("files", "RssFile")):
        figures[name] = int(status[field].split()[0]) / 1024
    return figures


def start(asked: dict[str, Any]) -> dict[str, Any]:
    """``started`` in a new process."""
    words = [sys.executable, os.path.abspath(__file__), "--child", json.dumps(asked)]
    quiet = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    given = {**os.environ, **quiet, "BEGAN": str(time.monotonic())}
    done = subprocess.run(words, env=given, stdout=subprocess.PIPE, check=True)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def systems(name: str, folder: str, peers: bool) -> dict[str, dict[str, Any]]:
    """What ``started`` takes, by the rows' titles; their files are made."""
    from fairseq_specdec.conversion import cli

    checkpoint, data, pair, text, length = _model(name, folder)
    rows = {}
    for number_format in ("fp32", "int8"):
        packed = os.path.join(os.path.dirname(checkpoint), f"packed-{number_format}.pt")
        words = ["pack", checkpoint, packed, "--verifier-dtype", number_format]
        cli.main(cli.get_parser().parse_args(words))
        for title, path in (("checkpoint", checkpoint), ("packed", packed)):
            row = {"engine": "fairseq_specdec", "path": path, "text": text}
            rows[f"this project, {title}, {number_format}"] = {
                **row,
                "number_format": number_format,
            }
    if peers:
        rows.update(_peers(checkpoint, data, pair, folder, text, length))
    return {title: {**row, "length": length} for title, row in rows.items()}


def _model(name: str, folder: str) -> Any:
    """(checkpoint, folder of its dictionaries, languages, a text, the output's length or None)."""
    if name.startswith("demo"):
        import shutil

        root = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data-bin")
        copy = shutil.copytree(os.path.join(root, name), os.path.join(folder, name))
        return os.path.join(copy, "verifier.pt"), copy, ("en", "de"), DEMO, None
    import random_pair
    import shapes

    bench = shapes.make(name, 1, WORDS, folder)
    path = os.path.join(folder, "verifier.pt")
    flags = random_pair.training_flags(
        random_pair.BASE, task="translation", **shapes.SHAPES[name][1]
    )
    random_pair.save(bench.model.half(), flags, path)
    words = [f"w{int(token) - 4}" for token in bench.sources[0][0][:-1]]
    pair = (random_pair.SOURCE, random_pair.TARGET)
    return path, folder, pair, " ".join(words), WORDS


def _peers(
    checkpoint: str, data: str, pair: Any, folder: str, text: str, length: int | None
) -> dict[str, dict[str, Any]]:
    from ctranslate2.converters import FairseqConverter
    from fairseq.data import Dictionary

    from fairseq_specdec.bench.peers import hugging_face, legible
    from fairseq_specdec.hub import SpeculativeTranslator

    copy = legible(checkpoint, folder)
    rows = {}
    words = Dictionary.load(os.path.join(data, f"dict.{pair[0]}.txt"))
    if length is None:
        with SpeculativeTranslator.from_pretrained(checkpoint, strategy="greedy") as translator:
            ids = translator.codec.encode(text)[:-1]
    else:
        ids = [words.index(each) for each in text.split()]
    pieces = " ".join(words[each] for each in ids)
    for kind in ("float32", "int8"):
        path = os.path.join(folder, f"ct2-{kind}")
        FairseqConverter(copy, data, *pair).convert(path, quantization=kind)
        row = {"engine": "CTranslate2", "path": path, "text": pieces}
        rows[f"CTranslate2, {kind}"] = {**row, "number_format": kind}
    path = os.path.join(folder, "transformers")
    hugging_face.convert(copy, len(words), path)
    os.remove(copy)
    row = {"engine": "transformers", "path": path, "text": " ".join(map(str, ids))}
    rows["transformers, float32"] = {**row, "number_format": "float32"}
    return rows


def best(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The run whose first sentence was there soonest."""
    return min(runs, key=lambda run: run["sentence"][0])


def table(name: str, runs: dict[str, dict[str, Any]]) -> str:
    """In Markdown."""
    lines = [f"\n{name}\n", "| | wall s: imports | model | sentence | in all | CPU s in all "
             "| peak MiB | of the process alone | of files |", "|---|" + "--:|" * 8]  # fmt: skip
    for title, run in runs.items():
        at = [0.0, *(run[part][0] for part in PARTS)]
        times = [f"{b - a:.2f}" for a, b in zip(at, at[1:])]
        times += [f"{run['sentence'][0]:.2f}", f"{run['sentence'][1]:.2f}"]
        memory = [f"{run[each]:.0f}" for each in ("peak", "own", "files")]
        lines.append("| " + " | ".join([title, *times, *memory]) + " |")
    return "\n".join(lines)


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="demo_ende, or a shape of shapes.py")
    parser.add_argument("--peers", action="store_true", help="other engines too")
    parser.add_argument("--repeats", type=int, default=3, help="(default: 3)")
    args = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        asked = systems(args.model, folder, args.peers)
        runs: dict[str, list[dict[str, Any]]] = {title: [] for title in asked}
        for _ in range(args.repeats):
            for title, each in asked.items():
                runs[title].append(start(each))
    print(table(args.model, {title: best(each) for title, each in runs.items()}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(started(json.loads(sys.argv[2]), float(os.environ["BEGAN"]))))
    else:
        main()
