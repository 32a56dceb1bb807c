"""The engine at the shapes of published models, with random weights.

    python benchmarks/shapes.py nllb-600m [--isa avx2] [--peers] >> benchmarks/shapes.md

Drafts are replayed: the output of greedy decoding, each token wrong with a given chance; with
``--batch-size`` nothing is drafted. CPU time, the least of the repeats, systems in turns, one
thread (``taskset -c 1``). ``--peers`` needs ctranslate2.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import isa

if __name__ == "__main__":  # before torch is loaded
    isa.hold()

import os
import tempfile

import random_pair
import torch
from engines import CTranslate2
from fairseq.sequence_generator import SequenceGenerator

from fairseq_specdec.config import decoding_settings
from fairseq_specdec.costs.tables import of_machine
from fairseq_specdec.decoding.builder import Overrides, build_generator
from fairseq_specdec.decoding.planning import times
from fairseq_specdec.drafting import Drafter, DraftSession, NoDrafter
from fairseq_specdec.engine.draft import Draft
from fairseq_specdec.engine.layout import Layout
from fairseq_specdec.engine.native.library import load
from fairseq_specdec.engine.threads import set_threads

FORMATS = ("fp32", "int8", "int7")
WIDTHS = (1, 2, 4, 8, 13)
CHANCES = (0.8, 0.7)


def _shape(layers: int, width: int, inner: int, heads: int, **more: Any) -> dict[str, Any]:
    sizes = {"embed_dim": width, "ffn_embed_dim": inner, "attention_heads": heads, "layers": layers}
    return {**{f"{s}_{k}": v for s in ("encoder", "decoder") for k, v in sizes.items()}, **more}


PRE_NORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}
LARGE = (12, 1024, 4096, 16)
# (words, settings of a Transformer); see docs/published_models.md.
SHAPES = {
    "nllb-600m": (256206, _shape(*LARGE, **PRE_NORM)),
    "m2m-418m": (128112, _shape(*LARGE, **PRE_NORM)),
    "mbart-50": (250054, _shape(*LARGE, layernorm_embedding=True, **PRE_NORM)),
    "bart-large": (50264, _shape(*LARGE, layernorm_embedding=True)),
    "base": (32000, _shape(6, 512, 2048, 8)),
    "small": (8312, _shape(6, 256, 1024, 4)),
}


class Replayed(Drafter):
    """Drafts what the sentence will say.

    Args:
        output: its tokens.
        chance: of each draft token to be right; or ``right`` tokens of every draft are.
        size: tokens of a draft; None for as many as the cost model asks for.
    """

    runs_model = False

    def __init__(
        self, chance: float = 1.0, right: int | None = None, size: int | None = None
    ) -> None:
        self.chance, self.right, self.block_size = chance, right, size
        self.output: list[int] = []

    def open(self, source: Any) -> DraftSession:
        return _Session(self)


class _Session(DraftSession):
    def __init__(self, drafter: Replayed) -> None:
        self.drafter = drafter
        self.generator = torch.Generator().manual_seed(7)

    def propose(self, hypotheses: Any, budget: Any = None, costs: Any = None) -> Draft:
        drafter, done = self.drafter, hypotheses.lengths_cpu[0]
        limit = len(drafter.output) if budget is None else budget
        size = limit if drafter.block_size is None else min(limit, drafter.block_size)
        draft = torch.tensor([drafter.output[done : done + size]], dtype=torch.long).view(1, -1)
        wrong = torch.rand(draft.shape, generator=self.generator) >= drafter.chance
        if drafter.right is not None:
            wrong = torch.arange(draft.size(1)).unsqueeze(0) >= drafter.right
        return Draft(torch.where(wrong, draft + 1, draft), torch.tensor([draft.size(1)]))


class Bench(NamedTuple):
    """What is measured.

    Attributes:
        model: with random weights, which halves store exactly.
        task: holds the dictionary.
        sources: long [B, S] each, a batch.
        length: tokens of every output.
    """

    model: Any
    task: Any
    sources: Sequence[torch.Tensor]
    length: int

    def generator(self, number_format: str, drafter: Replayed | None = None) -> Any:
        """This project's, greedy or with replayed drafts."""
        asked = argparse.Namespace(max_len_a=0, max_len_b=self.length, min_len=self.length, beam=1)
        whole = drafter is not None and drafter.block_size is not None
        words = self.task.target_dictionary
        return build_generator(
            [self.model], words, words, asked,
            decoding_settings(strategy="greedy", backend="native", verifier_dtype=number_format),
            overrides=Overrides(drafter or NoDrafter(), always_draft=whole),
        )  # fmt: skip

    def stock(self) -> Any:
        """fairseq's generator."""
        limits = {"max_len_a": 0, "max_len_b": self.length, "min_len": self.length}
        return SequenceGenerator([self.model], self.task.target_dictionary, beam_size=1, **limits)

    def outputs(self, generator: Any) -> list[list[int]]:
        """Tokens of every sentence; a replayed draft is of those known."""
        tokens = []
        for source in self.sources:
            lengths = torch.full((len(source),), source.size(1))
            sample = {"net_input": {"src_tokens": source, "src_lengths": lengths}}
            rows = generator.generate([self.model], sample)
            tokens += [row[0]["tokens"].tolist() for row in rows]
        return tokens


def make(name: str, sentences: int, length: int, folder: str, rows: int = 1) -> Bench:
    """A model of a shape and batches of random sentences, and their dictionary in a folder."""
    words, settings = SHAPES[name]
    asked = argparse.Namespace(vocabulary=words, sentences=sentences, length=length, seed=1)
    task = random_pair.write(asked, folder)
    model = random_pair.verifier(
        random_pair.Size(name, random_pair.BASE, settings, None), 1, task
    ).requires_grad_(False)
    for parameter in model.parameters():
        parameter.copy_(parameter.half())
    generator = torch.Generator().manual_seed(2)
    sources = torch.randint(4, words, (sentences, length), generator=generator)
    sources[:, -1] = task.source_dictionary.eos()
    return Bench(model, task, sources.split(rows), length)


def cpu_ms(run: Callable[[], Any]) -> float:
    """CPU milliseconds of a call."""
    started = time.process_time()
    run()
    return 1000 * (time.process_time() - started)


def wall_ms(run: Callable[[], Any]) -> float:
    """Milliseconds of a call."""
    started = time.perf_counter()
    run()
    return 1000 * (time.perf_counter() - started)


def in_turns(
    runs: dict[str, Callable[[], Any]], repeats: int, ms: Callable[..., float] = cpu_ms
) -> dict[str, float]:
    """The least milliseconds of each; a first run of each does not count."""
    for run in runs.values():
        run()
    laps: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            laps[name].append(ms(run))
    return {name: min(each) for name, each in laps.items()}


def passes(
    bench: Bench, generator: Any, repeats: int, ms: Callable[..., float] = cpu_ms
) -> dict[int, list[float]]:
    """[predicted, measured] milliseconds of a pass over so many tokens."""
    parts = generator.parts()
    drafter = Replayed()
    model = times(parts.verifier, drafter, drafter, "auto")
    source = bench.sources[0]
    net_input = {"src_tokens": source[:1], "src_lengths": torch.tensor([source.size(1)])}
    with torch.inference_mode():
        outs = parts.verifier.encode(net_input)
        session = parts.verifier.open(outs, bench.length, max(WIDTHS))
        lengths, tokens = torch.zeros(1, dtype=torch.long), torch.full((1, max(WIDTHS)), 5)

        def over(width: int) -> Callable[[], Any]:
            layout = Layout.chain(lengths, [0], width)
            return lambda: session.score(tokens[:, :width], layout).best()

        measured = in_turns({str(width): over(width) for width in WIDTHS}, 3 * repeats, ms)
        session.close()
    return {w: [1000 * model.verifying(w), measured[str(w)]] for w in WIDTHS}


def peers(bench: Bench, folder: str, name: str) -> dict[str, Callable[[], Any]]:
    """Runs of other engines, by their names."""
    _, settings = SHAPES[name]
    path, made = os.path.join(folder, "model.pt"), os.path.join(folder, "ct2")
    flags = random_pair.training_flags(random_pair.BASE, task="translation", **settings)
    random_pair.save(bench.model, flags, path)
    CTranslate2.convert(path, folder, random_pair.SOURCE, random_pair.TARGET, made, "float32")
    os.remove(path)
    runs = {}
    for kind in ("float32", "int8"):
        peer = CTranslate2(made, kind, False, 1, {"min_len": bench.length})
        inputs = [peer.inputs(source.tolist()) for source in bench.sources]
        runs[f"CTranslate2 {kind}"] = lambda peer=peer, inputs=inputs: [
            peer.run(each, bench.length, 1) for each in inputs
        ]
    return runs


def rows(bench: Bench, number_format: str, generator: Any) -> dict[str, Callable[[], Any]]:
    """This project's runs in a number format, by their names."""
    outputs = bench.outputs(generator)
    name = "halves" if number_format == "fp32" else number_format
    runs: dict[str, Callable[[], Any]] = {f"greedy, {name}": lambda: bench.outputs(generator)}
    if len(bench.sources[0]) > 1:
        return runs
    drafters = {f"3 tokens per pass of 8, {name}": Replayed(right=2, size=7)}
    for chance in CHANCES:
        drafters[f"drafts right at {chance}, block chosen, {name}"] = Replayed(chance)
    for title, drafter in drafters.items():
        drafted = bench.generator(number_format, drafter)

        def run(drafted: Any = drafted, drafter: Replayed = drafter) -> None:
            for source, output in zip(bench.sources, outputs):
                drafter.output = output
                alone = bench._replace(sources=[source])
                assert alone.outputs(drafted) == [output], "drafts have changed the output"

        runs[title] = run
    return runs


def shared(bench: Bench, threads: int, repeats: int) -> str:
    """A table of passes of one thread and of several, in wall time."""
    lines = ["| pass, wall ms | threads | " + " | ".join(map(str, WIDTHS)) + " |"]
    lines.append("|---|--:|" + "--:|" * len(WIDTHS))
    for number_format in FORMATS:
        generator = bench.generator(number_format)
        for count in (1, threads):
            set_threads(count)
            milliseconds = passes(bench, generator, repeats, wall_ms)
            cells = (f"{ms:.1f}" for _, ms in milliseconds.values())
            lines.append(f"| {number_format} | {count} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape", choices=sorted(SHAPES))
    parser.add_argument("--isa", help="as of specdec-bench")
    parser.add_argument("--peers", action="store_true", help="other engines too")
    parser.add_argument(
        "--threads", type=int, help="passes shared by so many threads, and nothing else"
    )
    parser.add_argument("--batch-size", type=int, default=1, help="(default: 1)")
    parser.add_argument("--repeats", type=int, default=3, help="(default: 3)")
    parser.add_argument("--sentences", type=int, default=2, help="(default: 2)")
    parser.add_argument("--length", type=int, default=30, help="tokens of each (default: 30)")
    args = parser.parse_args(words)
    torch.set_num_threads(1)
    library = load()
    assert library is not None, "needs the native engine"
    of_machine.cache_clear()
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        bench = make(args.shape, args.sentences, args.length, folder, args.batch_size)
        if args.threads:
            print(shared(bench, args.threads, args.repeats))
            return
        stock = bench.stock()
        runs: dict[str, Callable[[], Any]] = {"stock": lambda: bench.outputs(stock)}
        if args.peers:
            runs.update(peers(bench, folder, args.shape))
        costs = {}
        for number_format in FORMATS:
            generator = bench.generator(number_format)
            runs.update(rows(bench, number_format, generator))
            costs[number_format] = passes(bench, generator, args.repeats)
        milliseconds = in_turns(runs, args.repeats)
    processor = of_machine(library).processor
    print(
        f"\n{args.shape}, {processor}, {library.variant}; {args.sentences} sentences, "
        f"{args.batch_size} at a time\n"
    )
    print("| | CPU ms per sentence |\n|---|--:|")
    for name, ms in milliseconds.items():
        print(f"| {name} | {ms / args.sentences:.0f} |")
    print("\n| pass, predicted / measured ms | " + " | ".join(map(str, WIDTHS)) + " |")
    print("|---|" + "--:|" * len(WIDTHS))
    for number_format, each in costs.items():
        cells = (f"{model:.1f} / {ms:.1f}" for model, ms in each.values())
        print(f"| {number_format} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
