"""``python -m fairseq_specdec.bench.quickstart``: the demo pairs, every strategy, one table.

Decodes the held-out sentences of ``data-bin/demo_ende`` (English-German) and
``data-bin/demo_edit`` (English with errors, corrected) one at a time with stock fairseq and with
this project's strategies, interleaved, and prints what each gives and costs.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional

import sacrebleu
import torch
from fairseq import checkpoint_utils
from sacremoses import MosesDetokenizer

from fairseq_specdec.config import TranslationSpecDecConfig
from fairseq_specdec.decoding.strategies import DRAFTER_DTYPES
from fairseq_specdec.engine.eager.linear import computes_in_bf16
from fairseq_specdec.io.atomic import write_json
from fairseq_specdec.tasks.translation_specdec import TranslationSpecDecTask

from . import machine, report
from .timing import System, ours, run_paired, stock
from .workload import batches_of, every_nth


class Pair(NamedTuple):
    """A demo pair: where it lies and what is asked of it."""

    folder: str
    source: str
    target: str
    language: str
    title: str
    quality: str


class Loaded(NamedTuple):
    """A pair in memory."""

    task: Any
    models: List[Any]
    batches: List[Dict[str, Any]]


def load(pair: Pair, limit: Optional[int], batch_size: int) -> Loaded:
    """Load a pair and its held-out sentences, shortest first as fairseq-generate orders them.

    Raises:
        FileNotFoundError: the pair is not there.
    """
    for name in (f"dict.{pair.source}.txt", "verifier.pt"):
        if not os.path.isfile(os.path.join(pair.folder, name)):
            raise FileNotFoundError(
                f"{pair.folder}: no {name}; fetch the whole repository, or make the pair with "
                "scripts/run demo"
            )
    config = TranslationSpecDecConfig(
        data=pair.folder,
        source_lang=pair.source,
        target_lang=pair.target,
        # The command line fills these in from other groups of flags.
        dataset_impl="mmap",
        required_seq_len_multiple=1,
        train_subset="train",
    )
    task = TranslationSpecDecTask.setup_task(config)
    path = os.path.join(pair.folder, "verifier.pt")
    models, _ = checkpoint_utils.load_model_ensemble([path], task=task)
    for model in models:
        model.eval()
    task.load_dataset("test")
    data = task.dataset("test")
    order = every_nth([int(i) for i in data.ordered_indices()], limit)
    return Loaded(task, models, batches_of(data, order, batch_size))


def detokenised(system: System, task: Any, language: str) -> Dict[int, str]:
    """Plain text of every output."""
    detokeniser = MosesDetokenizer(lang=language)
    texts = {}
    for number, tokens in system.tokens.items():
        words = task.target_dictionary.string(torch.tensor(tokens), "subword_nmt").split()
        texts[number] = detokeniser.detokenize(words).replace(" @-@ ", "-")
    return texts


def score(pair: Pair, systems: List[System], task: Any) -> Dict[str, float]:
    """BLEU, or the share of exact corrections, by system."""
    path = os.path.join(pair.folder, f"heldout.{pair.target}")
    with open(path, encoding="utf-8") as lines:
        references = [line.rstrip("\n") for line in lines]
    found = {}
    for system in systems:
        texts = detokenised(system, task, pair.language)
        numbers = sorted(texts)
        outputs = [texts[n] for n in numbers]
        wanted = [references[n] for n in numbers]
        if pair.quality == "BLEU":
            found[system.name] = sacrebleu.corpus_bleu(outputs, [wanted]).score
        else:
            same = sum(" ".join(a.split()) == " ".join(b.split()) for a, b in zip(outputs, wanted))
            found[system.name] = 100.0 * same / len(wanted)
    return found


def measure(
    pair: Pair,
    make: Callable[[Loaded], List[System]],
    limit: Optional[int],
    batch_size: int,
    shown: int,
    say: Callable[[str], Any],
) -> Dict[str, Any]:
    """Run one pair and report it.

    Returns:
        Rows, largest score difference and settings, ready for JSON.
    """
    loaded = load(pair, limit, batch_size)
    systems = make(loaded)
    run_paired(systems, loaded.batches, title=pair.title)
    quality = score(pair, systems, loaded.task)
    beam, greedy = systems[0], systems[1]
    rows = [report.figures(s, greedy, beam, quality) for s in systems]
    count = len(greedy.tokens)
    say(f"\n{pair.title}: {count} held-out sentences, batch {batch_size}\n")
    say(report.markdown(rows, pair.quality))
    if shown:
        last = systems[-1]
        traced = sorted(last.tokens)[:: max(1, count // shown)][:shown]
        say(f"\n{last.name}, iteration by iteration (accepted tokens | the verifier's own)")
        for number in traced:
            say("")
            for line in report.trace(last, number, loaded.task.target_dictionary):
                say(line)
    return {"pair": pair.title, "sentences": count, "batch_size": batch_size, "rows": rows}


# On sentences of the demo pair's validation set 0.05 and 0.1 were 6% faster than whole blocks for
# gad; gad++, which accepts more, gained nothing.
GAD_CONFIDENCE = 0.05


def chosen_dtype(asked: str) -> str:
    """``--drafter-dtype`` for ``auto``: bf16 where the processor computes in it, else ``same``."""
    if asked != "auto":
        return asked
    return "bf16" if computes_in_bf16() else "same"


def translation_systems(
    folder: str, block_size: Optional[int], dtype: str
) -> Callable[[Loaded], List[System]]:
    """Rows of the translation pair."""

    def make(loaded: Loaded) -> List[System]:
        task, models = loaded.task, loaded.models
        drafter = {
            "drafter_path": os.path.join(folder, "drafter.pt"),
            "block_size": block_size,
            "drafter_dtype": dtype,
        }
        trace = {"flags": {"retain_iter_history": True}}
        return [
            stock(task, models, 5),
            stock(task, models, 1),
            ours(task, models, "greedy"),
            ours(task, models, "iad", block_size=block_size),
            ours(task, models, "gad", draft_confidence=GAD_CONFIDENCE, **drafter),
            ours(task, models, "gad++", top_beta=3, tau=1.0, **drafter, **trace),
        ]

    return make


def editing_systems(loaded: Loaded) -> List[System]:
    """Rows of the editing pair."""
    task, models = loaded.task, loaded.models
    trace = {"flags": {"retain_iter_history": True}}
    return [
        stock(task, models, 5),
        stock(task, models, 1),
        ours(task, models, "greedy"),
        ours(task, models, "iad"),
        ours(task, models, "iad", name="iad --realign", realign=True, **trace),
    ]


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1])
    parser.add_argument(
        "--data-bin",
        default="data-bin",
        help="folder that holds the demo pairs (default: %(default)s)",
    )
    parser.add_argument(
        "--limit",
        type=int,
        help="decode about so many sentences of each pair, 1 or more (default: all)",
    )
    parser.add_argument(
        "--batch-size", type=int, default=1, help="sentences at a time, 1 or more (default: 1)"
    )
    parser.add_argument(
        "--block-size", type=int, help="k, 1 or more (default: what the drafter was made for)"
    )
    parser.add_argument(
        "--drafter-dtype",
        default="auto",
        choices=("auto", *DRAFTER_DTYPES),
        help="number format of the drafter (default: bf16 where the processor computes in it)",
    )
    parser.add_argument(
        "--show", type=int, default=3, help="sentences shown by iteration, 0 or more (default: 3)"
    )
    parser.add_argument(
        "--pairs", default="ende,edit", help="which pairs, by commas (default: %(default)s)"
    )
    parser.add_argument(
        "--json", metavar="FILE", help="also write all figures here (default: do not)"
    )
    return parser


def main(arguments: Optional[List[str]] = None) -> None:
    """Entry point; ends with a message where a demo pair is missing."""
    options = get_parser().parse_args(arguments)
    ende, edit = (os.path.join(options.data_bin, f"demo_{n}") for n in ("ende", "edit"))
    dtype = chosen_dtype(options.drafter_dtype)
    plans = {
        "ende": (
            Pair(ende, "en", "de", "de", "English-German", "BLEU"),
            translation_systems(ende, options.block_size, dtype),
        ),
        "edit": (
            Pair(edit, "src", "tgt", "en", "English with errors, corrected", "exact %"),
            editing_systems,
        ),
    }
    unknown = set(options.pairs.split(",")) - set(plans)
    if unknown:
        raise SystemExit(f"--pairs: no pair {sorted(unknown)[0]!r}; choose from ende, edit")

    def say(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    results = []
    for name in options.pairs.split(","):
        pair, make = plans[name]
        try:
            result = measure(pair, make, options.limit, options.batch_size, options.show, say)
        except FileNotFoundError as error:
            raise SystemExit(str(error)) from error
        results.append(result)
    facts = dict(machine.settings(), drafter_dtype=dtype)
    say("\n" + "; ".join(f"{key} {value}" for key, value in facts.items()))
    if options.json:
        write_json(options.json, {"settings": facts, "results": results}, make_folder=True)


if __name__ == "__main__":
    main()
