"""Tokens a pass of sps before and after training its small model, by loss: on the tests' toys.

    OMP_NUM_THREADS=1 python benchmarks/distillspec.py [--updates 80]

Every row is so many updates of 16 sentences from the same small model, Adam at 5e-4, three seeds:
the mean (least to most) of greedy and of sampled decoding, k = 4 whole drafts, of 200 other
sentences.
"""

from __future__ import annotations

import argparse
import copy
import pathlib
import sys
import tempfile
from typing import Any

import torch
import torch.nn.functional as F

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
from toy_blockwise import save_checkpoint  # noqa: E402
from toy_early_exit import make_batch  # noqa: E402
from toy_strategies import decode, flags, make_generator  # noqa: E402
from toy_translation import PAD, make_sample, make_task, sentences, toy_model  # noqa: E402

from fairseq_specdec.config import decoding_settings  # noqa: E402
from fairseq_specdec.criterions import DistillSpecLoss, DistillSpecLossConfig  # noqa: E402
from fairseq_specdec.criterions.distillspec_loss import DIVERGENCES  # noqa: E402
from fairseq_specdec.decoding.builder import build_generator  # noqa: E402

SEEDS = 3
TRAINED, MEASURED = sentences(640, seed=100), sentences(200, seed=200)


def tokens_a_pass(small: Any, sampling: bool) -> float:
    """Tok. of sps with this small model."""
    words, small = make_task().tgt_dict, small.eval()
    torch.manual_seed(0)
    generator = build_generator(
        [toy_model()], words, words, flags(sampling=sampling, max_len_b=60),
        decoding_settings(strategy="sps", drafter_path=__file__, draft_budget=0,
                          drafter_dtype="same"),
        load=lambda *_: copy.deepcopy(small),
    )  # fmt: skip
    decode(generator, make_sample(MEASURED))
    return float(generator.stats.mean_accepted_tokens)


def trained(small: Any, criterion: Any, targets: list[list[int]], updates: int, seed: int) -> Any:
    """A copy of the small model after so many updates. ``criterion``: None for cross-entropy."""
    torch.manual_seed(seed)
    model = copy.deepcopy(small).train()
    adam = torch.optim.Adam(model.parameters(), lr=5e-4)
    for _ in range(updates):
        rows = torch.randperm(len(targets))[:16].tolist()
        chosen = make_sample([TRAINED[row] for row in rows])
        batch = make_batch(chosen, [targets[row] for row in rows])
        if criterion is None:
            logits, _ = model(**batch["net_input"])
            gold = batch["target"].flatten()
            loss = F.cross_entropy(logits.flatten(0, 1), gold, ignore_index=PAD)
        else:
            total, size, _ = criterion(model, batch)
            loss = total / size
        adam.zero_grad()
        loss.backward()
        adam.step()
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=80)
    asked = parser.parse_args()
    small = toy_model("learned", seed=2)
    greedy = make_generator("greedy", models=[toy_model()])
    targets = [each["tokens"].tolist() for each in decode(greedy, make_sample(TRAINED))]
    print("before", *(f"{tokens_a_pass(small, way):.2f}" for way in (False, True)))
    rows = [("cross-entropy", 0.0), *((name, own) for own in (0.0, 1.0) for name in DIVERGENCES)]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "verifier.pt"
        save_checkpoint(path, toy_model())
        for name, own in rows:
            criterion = None
            if name in DIVERGENCES:
                config = DistillSpecLossConfig(
                    verifier=str(path), divergence=name, on_policy=own, sentence_avg=False
                )
                criterion = DistillSpecLoss(config, make_task())
            models = [trained(small, criterion, targets, asked.updates, n) for n in range(SEEDS)]
            print(name, "own targets" if own else "the verifier's output", end="")
            for way in (False, True):
                found = sorted(tokens_a_pass(model, way) for model in models)
                print(f" {sum(found) / SEEDS:.2f} ({found[0]:.2f} to {found[-1]:.2f})", end="")
            print(flush=True)


if __name__ == "__main__":
    main()
