"""CPU time of distilling a corpus: stock fairseq, this engine and CTranslate2, in turns.

    OMP_NUM_THREADS=1 python benchmarks/distillation.py [--rounds 3] [--beam 5] [--max-tokens 8192]

The teacher of the demo pair rewrites its 500 held-out sentences. Each system is a process of its
own. What loading takes is measured by a run over one sentence, and subtracted; the least of the
rounds counts. CTranslate2 cuts its batches itself, of as many tokens.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

from fairseq.data import Dictionary
from fairseq.data.data_utils import load_indexed_dataset

from fairseq_specdec.bench.peers import legible
from fairseq_specdec.io.provenance import cpu

DEMO = pathlib.Path(__file__).resolve().parents[1] / "data-bin" / "demo_ende"
SENTENCES = 500
OURS = [sys.executable, "-m", "fairseq_specdec.data.distill", str(DEMO), "--gen-subset", "test"]
CONVERT = """
import sys
from fairseq_specdec.bench.peers.ctranslate2 import convert
convert(*sys.argv[1:])
"""
PEER = """
import sys
import ctranslate2
model, kind, sources, limit, beam, tokens = sys.argv[1:]
lines = [line.split() for line in open(sources, encoding="utf-8")][: int(limit)]
translator = ctranslate2.Translator(model, compute_type=kind, intra_threads=1, inter_threads=1)
translator.translate_batch(
    lines, beam_size=int(beam), max_batch_size=int(tokens), batch_type="tokens",
    max_decoding_length=200, max_input_length=0,
)
"""


def seconds(words):
    """CPU time of a command."""
    before = os.times()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def ours(args, task, folder):
    """The command of a number of sentences."""

    def words(limit):
        dest = tempfile.mkdtemp(dir=folder) + "/out"
        flags = ["--path", str(DEMO / "verifier.pt"), "--dest", dest, "--limit", str(limit)]
        flags += ["--task", task, "--beam", str(args.beam), "--max-tokens", str(args.max_tokens)]
        return [*OURS, *flags, "--cpu", "--on-length-limit", "keep"]

    return words


def peer(args, kind, model, sources):
    """The same of CTranslate2."""

    def words(limit):
        given = (model, kind, sources, limit, args.beam, args.max_tokens)
        return [sys.executable, "-c", PEER, *map(str, given)]

    return words


def converted(folder):
    """CTranslate2's model of the demo's verifier, and the sources as it reads them."""
    model, sources = f"{folder}/model", f"{folder}/sources"
    checkpoint = legible(str(DEMO / "verifier.pt"), folder)
    words = [sys.executable, "-c", CONVERT, checkpoint, str(DEMO), "en", "de", model, "float32"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    dictionary = Dictionary.load(str(DEMO / "dict.en.txt"))
    data = load_indexed_dataset(str(DEMO / "test.en-de.en"), dictionary)
    lines = [dictionary.string(data[place]) for place in range(SENTENCES)]
    pathlib.Path(sources).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return model, sources


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--max-tokens", type=int, default=8192)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = converted(folder)
        systems = {
            "stock fairseq": ours(args, "translation", folder),
            "this project": ours(args, "translation_specdec", folder),
            **{f"CTranslate2 {kind}": peer(args, kind, *model) for kind in ("float32", "int8")},
        }
        least = {}
        for _ in range(args.rounds):
            for name, words in systems.items():
                for limit in (1, SENTENCES):
                    spent = seconds(words(limit))
                    least[name, limit] = min(spent, least.get((name, limit), spent))
    print(f"{cpu()}, one thread; beam {args.beam}, {args.max_tokens} tokens a batch\n")
    print("| | CPU s | of it loading | ms a sentence |\n|---|---:|---:|---:|")
    for name in systems:
        loading, whole = least[name, 1], least[name, SENTENCES]
        each = 1000 * (whole - loading) / (SENTENCES - 1)
        print(f"| {name} | {whole:.1f} | {loading:.1f} | {each:.2f} |")


if __name__ == "__main__":
    main()
