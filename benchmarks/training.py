"""CPU seconds an update and target words a second of training, drafters beside fairseq's models.

    OMP_NUM_THREADS=1 python benchmarks/training.py data-bin/demo_ende [--only attached] [--stock]

Every configuration does its updates on the same batches, in turns, in one process and thread. An
update is forward, backward, clipping and Adam. ``--stock`` adds each drafter a second time, by
fairseq's own decoder layers over whole blocks, which is what it cost before layers were packed.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import tempfile
import time
from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest import mock

import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

import fairseq_specdec
from fairseq_specdec.io.provenance import cpu
from fairseq_specdec.models import block_decoder

WIDE = (
    "--encoder-embed-dim 256 --decoder-embed-dim 256 --encoder-ffn-embed-dim 1024 "
    "--decoder-ffn-embed-dim 1024 --encoder-attention-heads 4 --decoder-attention-heads 4 "
    "--share-all-embeddings --dropout 0.1 --max-update 1000"
)
THREE = "--encoder-layers 3 --decoder-layers 3"
SMOOTH = "--criterion label_smoothed_cross_entropy --label-smoothing 0.1"
NAT = f"--task translation_lev --criterion nat_loss --label-smoothing 0.1 --noise full_mask {THREE}"
PRE_NORM = "--encoder-normalize-before --decoder-normalize-before"
GLANCING = "--criterion glancing_block_loss --label-smoothing 0.1"
NONE = "--glancing-start 0 --glancing-stop 0"
BLOCK = f"--arch spec_drafter_base --encoder-layers 4 --decoder-layers 2 --block-size 25 {PRE_NORM}"
ATTACHED = (
    "--arch attached_drafter_base --attach-to {verifier} --decoder-layers 2 --block-size 10 "
    f"--num-cuts 4 --chain-width 256 {PRE_NORM} --criterion glancing_block_loss {NONE} "
    "--label-smoothing 0 --block-loss-decay 0.85"
)
KEEP = " --cache-verifier-states {cache}"

CONFIGURATIONS: dict[str, str] = {
    "fairseq transformer 3+3": f"--arch transformer {THREE} {SMOOTH}",
    "fairseq cmlm 3+3": f"--arch cmlm_transformer {NAT}",
    "block drafter 4+2, k 25, one cut, no glancing": f"{BLOCK} {GLANCING} {NONE}",
    "block drafter 4+2, k 25, one cut, glancing": f"{BLOCK} {GLANCING}",
    "block drafter 4+2, k 25, 2 cuts, glancing": f"{BLOCK} {GLANCING} --num-cuts 2",
    "block drafter 4+2, k 25, 4 cuts, glancing": f"{BLOCK} {GLANCING} --num-cuts 4",
    "block drafter 4+2, k 25, 4 cuts, copy, glancing": (
        f"{BLOCK} {GLANCING} --num-cuts 4 --source-copy"
    ),
    "papers' block drafter 4+2, k 25, bidirectional, copy, glancing": (
        f"{BLOCK} {GLANCING} --bidirectional-prefix --source-copy"
    ),
    "attached, k 10, 4 cuts, chain": ATTACHED,
    "attached, k 10, 4 cuts, chain, states kept": ATTACHED + KEEP,
    "attached, k 10, 4 cuts, chain, soft targets 0.5": f"{ATTACHED} --soft-targets 0.5",
    "attached, k 10, 4 cuts, chain, soft targets 0.5, states kept": (
        f"{ATTACHED} --soft-targets 0.5{KEEP}"
    ),
}
STOCK = ", stock layers"


class Update(NamedTuple):
    """What one update took."""

    seconds: float
    words: int


class Training:
    """A model, its criterion and its optimizer.

    Args:
        folder: of a demo pair.
        flags: of fairseq-train.
        max_tokens: ``--max-tokens``.
        stock: run drafters by fairseq's own decoder layers.
    """

    def __init__(self, folder: str, flags: str, max_tokens: int, stock: bool):
        torch.manual_seed(1)
        flags = f"{folder} --user-dir {fairseq_specdec.__path__[0]} {WIDE} {flags}"
        with tempfile.TemporaryDirectory() as cache:  # its files stay open
            self._build(
                flags.format(verifier=f"{folder}/verifier.pt", cache=cache).split(), max_tokens
            )
            if KEEP.split()[0] in flags:
                for batch in self.batches:
                    self.model.read(**batch["net_input"])
        self.stock, self.updates = stock, 0

    def _build(self, given: list[str], max_tokens: int) -> None:
        args = options.parse_args_and_arch(options.get_training_parser(), given)
        cfg = convert_namespace_to_omegaconf(args)
        self.task = tasks.setup_task(cfg.task)
        self.model = self.task.build_model(cfg.model)
        self.criterion = self.task.build_criterion(cfg.criterion)
        self.optimizer = torch.optim.Adam(self.model.parameters(), 5e-4, (0.9, 0.98))
        self.task.load_dataset("test")
        batches = self.task.get_batch_iterator(
            self.task.dataset("test"), max_tokens=max_tokens, seed=1
        )
        self.batches: list[Any] = list(batches.next_epoch_itr(shuffle=False))

    def update(self) -> Update:
        """One update on the next batch."""
        sample = self.batches[self.updates % len(self.batches)]
        self.model.train()
        self.model.set_num_updates(self.updates)
        start = time.process_time()
        with self._layers():
            if hasattr(self.task, "inject_noise"):  # of non-autoregressive tasks
                sample = dict(sample, prev_target=self.task.inject_noise(sample["target"]))
            loss, size, _ = self.criterion(self.model, sample)
            self.optimizer.zero_grad()
            (loss / size).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.optimizer.step()
        self.updates += 1
        return Update(time.process_time() - start, sample["ntokens"])

    def _layers(self) -> contextlib.AbstractContextManager:
        if not self.stock:
            return contextlib.nullcontext()
        return mock.patch.object(block_decoder, "can_pack", lambda layer: False)


def trainings(args: argparse.Namespace) -> Iterator[Any]:
    """Names and trainings that were asked for."""
    for name, flags in CONFIGURATIONS.items():
        if args.only and args.only not in name:
            continue
        yield name, Training(args.folder, flags, args.max_tokens, False)
        if args.stock and "drafter" in flags and KEEP not in flags:
            yield name + STOCK, Training(args.folder, flags, args.max_tokens, True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="of a demo pair")
    parser.add_argument("--only", help="configurations whose name has this in it")
    parser.add_argument("--stock", action="store_true", help="drafters by stock layers, too")
    parser.add_argument("--updates", type=int, default=10, help="of each (default: 10)")
    parser.add_argument("--max-tokens", type=int, default=2000, help="of a batch (default: 2000)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    running = dict(trainings(args))
    took: dict[str, list[Update]] = {name: [] for name in running}
    for training in running.values():
        training.update()  # the first one allocates
        training.updates = 0
    for _ in range(args.updates):
        for name, training in running.items():
            took[name].append(training.update())
    print(f"{cpu()}, torch {torch.__version__}, 1 thread, fp32")
    print(f"{args.updates} updates of each, CPU time, median of updates\n")
    print("| | CPU s an update | target words a s |\n|---|--:|--:|")
    for name, updates in took.items():
        seconds = statistics.median(each.seconds for each in updates)
        rate = statistics.median(each.words / each.seconds for each in updates)
        print(f"| {name} | {seconds:.2f} | {rate:,.0f} |")


if __name__ == "__main__":
    main()
