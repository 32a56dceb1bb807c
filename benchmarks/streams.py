"""Threads across sentences: one translator, several threads, each with sentences of its own.

    python benchmarks/streams.py [--threads 1,2] [--batch 1] [--limit 100] [--repeats 3]

Prints, for this project and CTranslate2 (the extra ``peers``), milliseconds a sentence of the demo
pair's held-out sentences, the systems in turns, one thread inside a sentence. Text goes in and out
in subwords, so that tokenisation, which is Python here and there, is in no figure.
"""

import argparse
import os
import pathlib
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

os.environ["OMP_NUM_THREADS"] = "1"

import torch  # noqa: E402

from fairseq_specdec.bench.peers import legible  # noqa: E402
from fairseq_specdec.bench.usage import until_at_rest  # noqa: E402
from fairseq_specdec.hub import SpeculativeTranslator  # noqa: E402

PAIR = pathlib.Path(__file__).resolve().parents[1] / "data-bin" / "demo_ende"
OURS = {
    "greedy": {"strategy": "greedy"},
    "gad, int8 drafter": {"strategy": "gad", "drafter_dtype": "int8", "draft_confidence": 0.05},
    "greedy int8": {"strategy": "greedy", "verifier_dtype": "int8"},
}


def subwords(limit):
    """Held-out sentences, as the verifier reads them."""
    codec = SpeculativeTranslator.from_pretrained(str(PAIR), strategy="greedy", device="cpu").codec
    lines = (PAIR / "heldout.en").read_text(encoding="utf-8").splitlines()[:limit]
    words = codec.src_dict
    return [" ".join(words[token] for token in codec.encode(line)[:-1]) for line in lines]


def ours(batch, beam):
    """{name: a function of threads that gives a function of texts}; they share one translator."""

    def made(flags):
        translator = SpeculativeTranslator.from_pretrained(
            str(PAIR), tokenizer=None, bpe=None, device="cpu", batch_size=batch, beam=beam,
            split=False, **flags,
        )  # fmt: skip

        def run(texts, threads):
            groups = [texts[first : first + batch] for first in range(0, len(texts), batch)]
            with ThreadPoolExecutor(threads) as pool:
                translations = pool.map(translator.translate, groups)
                return [one.text for group in translations for one in group]

        return run

    chosen = {name: f for name, f in OURS.items() if beam == 1 or f["strategy"] == "greedy"}
    return {name: made(flags) for name, flags in chosen.items()}


def theirs(batch, beam, threads):
    """The same of CTranslate2, whose threads are chosen when a model is loaded."""
    import ctranslate2
    from ctranslate2.converters import FairseqConverter

    with tempfile.TemporaryDirectory() as folder:
        copy = legible(str(PAIR / "verifier.pt"), folder)
        FairseqConverter(copy, str(PAIR), "en", "de").convert(f"{folder}/model")
        loaded = {
            kind: ctranslate2.Translator(
                f"{folder}/model", compute_type=kind, inter_threads=threads, intra_threads=1
            )
            for kind in ("float32", "int8")
        }

    def made(translator):
        def run(texts, _):
            jobs = translator.translate_iterable(
                (text.split() for text in texts), max_batch_size=batch, beam_size=beam,
                max_decoding_length=200, min_decoding_length=1, max_input_length=0,
            )  # fmt: skip
            return [" ".join(job.hypotheses[0]) for job in jobs]

        return run

    return {f"CTranslate2 {kind}": made(translator) for kind, translator in loaded.items()}


def measured(systems, texts, threads, repeats):
    """{name: (milliseconds a sentence, CPU time by wall time, outputs)}, medians."""
    times = {name: [] for name in systems}
    outputs = {name: run(texts, threads) for name, run in systems.items()}  # and warm
    for _ in range(repeats):
        for name, run in systems.items():
            until_at_rest()
            used, begun = time.process_time(), time.perf_counter()
            run(texts, threads)
            wall = time.perf_counter() - begun
            times[name].append((wall * 1000 / len(texts), (time.process_time() - used) / wall))
    return {
        name: (*(statistics.median(column) for column in zip(*laps)), outputs[name])
        for name, laps in times.items()
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", default="1,2", help="numbers of threads (default: 1,2)")
    parser.add_argument("--batch", type=int, default=1, help="sentences together (default: 1)")
    parser.add_argument("--beam", type=int, default=1, help="width (default: 1)")
    parser.add_argument("--limit", type=int, default=100, help="sentences (default: 100)")
    parser.add_argument("--repeats", type=int, default=3, help="median of so many (default: 3)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    texts = subwords(options.limit)
    own = ours(options.batch, options.beam)
    print("| threads | system | ms a sentence | CPU by wall time | equal to greedy |")
    print("|---:|---|---:|---:|---:|")
    for threads in map(int, options.threads.split(",")):
        systems = dict(theirs(options.batch, options.beam, threads), **own)
        results = measured(systems, texts, threads, options.repeats)
        for name, (each, busy, outputs) in results.items():
            equal = sum(map(str.__eq__, outputs, results["greedy"][2]))
            print(f"| {threads} | {name} | {each:.2f} | {busy:.2f} | {equal} of {len(texts)} |")


if __name__ == "__main__":
    main()
