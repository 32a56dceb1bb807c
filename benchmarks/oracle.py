"""A small model's output where the big model replaces what it finds unlikely (Kim et al. 2023,
section 3.1 and Figure 2).

    python benchmarks/oracle.py DATA --path BIG --small SMALL -s SRC -t TGT [--gen-subset valid]

Both models read every output so far. The small model's likeliest token is kept where the big
model's probability of it is at least the threshold, else the big model's own is taken. Prints, for
each threshold, the share of tokens that were replaced, and BLEU: an ideal that no policy reaches
without asking the big model every time. ``specdec-bench`` measures what ``bild`` makes of it.
"""

import argparse
import itertools
from collections.abc import Sequence
from typing import Any

import sacrebleu
import torch
from fairseq import checkpoint_utils, utils
from torch import Tensor

import fairseq_specdec.tasks  # noqa: F401  (registers its models)

THRESHOLDS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)


class Stepper:
    """Log-probabilities of a model's next tokens, with fairseq's own cache."""

    def __init__(self, model: Any, net_input: dict[str, Tensor]) -> None:
        self.model = model
        self.encoder_out = model.encoder(net_input["src_tokens"], net_input["src_lengths"])
        self.cache: dict[str, Any] = {}

    def __call__(self, outputs: Tensor) -> Tensor:
        """[B, V] after the outputs [B, T]; each call has one token more than the one before."""
        step = self.model.decoder(
            outputs, encoder_out=self.encoder_out, incremental_state=self.cache
        )
        log_probs: Tensor = self.model.get_normalized_probs((step[0][:, -1:], None), log_probs=True)
        return log_probs[:, -1]


def correct(
    small: Any, big: Any, net_input: dict[str, Tensor], threshold: float, limit: int, tgt_dict: Any
) -> tuple[list[list[int]], int, int]:
    """Decode a batch greedily with the small model, corrected by the big one.

    Args:
        threshold: least probability in the big model of a token that is kept.
        limit: tokens after which an output ends.
        tgt_dict: the target dictionary.

    Returns:
        outputs without </s>, tokens that were chosen, tokens that were replaced.
    """
    steppers = [Stepper(model, net_input) for model in (small, big)]
    rows, eos = net_input["src_tokens"].size(0), tgt_dict.eos()
    outputs = torch.full((rows, 1), eos, device=net_input["src_tokens"].device)
    live = torch.ones(rows, dtype=torch.bool, device=outputs.device)
    chosen = replaced = 0
    while outputs.size(1) <= limit and bool(live.any()):
        ours, theirs = (stepper(outputs) for stepper in steppers)
        for log_probs in (ours, theirs):
            log_probs[:, tgt_dict.pad()] = float("-inf")
        token = ours.argmax(-1, keepdim=True)
        unlikely = theirs.gather(1, token).exp() < threshold
        token = torch.where(unlikely, theirs.argmax(-1, keepdim=True), token)
        chosen += int(live.sum())
        replaced += int((unlikely.squeeze(1) & live).sum())
        outputs = torch.cat((outputs, token), 1)
        live = live & (token.squeeze(1) != eos)
    tokens = [[*itertools.takewhile(lambda t: t != eos, row)] for row in outputs[:, 1:].tolist()]
    return tokens, chosen, replaced


def measured(
    small: Any, big: Any, batches: Sequence[dict[str, Any]], threshold: float, tgt_dict: Any
) -> tuple[float, float]:
    """Share of tokens replaced, and BLEU of the subwords joined, at a threshold."""

    def text(tokens: Any) -> str:
        return str(tgt_dict.string(tokens, "@@ "))

    outputs: list[str] = []
    references: list[str] = []
    chosen = replaced = 0
    for batch in batches:
        net_input = batch["net_input"]
        limit = min(2 * net_input["src_tokens"].size(1) + 10, big.max_decoder_positions() - 1)
        made = correct(small, big, net_input, threshold, limit, tgt_dict)
        outputs += [text(torch.tensor(row)) for row in made[0]]
        references += [text(utils.strip_pad(row, tgt_dict.pad())) for row in batch["target"]]
        chosen, replaced = chosen + made[1], replaced + made[2]
    score = sacrebleu.corpus_bleu(outputs, [references], tokenize="none", force=True).score
    return replaced / chosen, score


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("data")
    parser.add_argument("--path", required=True, help="the big model")
    parser.add_argument("--small", required=True, help="the small one, of the same dictionaries")
    parser.add_argument("-s", "--source-lang", required=True)
    parser.add_argument("-t", "--target-lang", required=True)
    parser.add_argument("--gen-subset", default="valid")
    parser.add_argument("--max-tokens", type=int, default=4096)
    parser.add_argument("--thresholds", type=lambda text: [*map(float, text.split(","))],
                        default=THRESHOLDS)  # fmt: skip
    args = parser.parse_args()
    given = {"data": args.data, "source_lang": args.source_lang, "target_lang": args.target_lang}
    (big,), _, task = checkpoint_utils.load_model_ensemble_and_task([args.path], given)
    (small,), _ = checkpoint_utils.load_model_ensemble([args.small], given, task=task)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    for model in (small, big):
        model.eval().to(device)
    task.load_dataset(args.gen_subset)
    iterator = task.get_batch_iterator(
        task.dataset(args.gen_subset), max_tokens=args.max_tokens,
        max_positions=utils.resolve_max_positions(task.max_positions(), big.max_positions()),
        ignore_invalid_inputs=True,
    )  # fmt: skip
    batches = [
        utils.apply_to_sample(lambda tensor: tensor.to(device), batch)
        for batch in iterator.next_epoch_itr(shuffle=False)
    ]
    print("| threshold | replaced | BLEU |\n|--:|--:|--:|")
    with torch.inference_mode():
        for threshold in args.thresholds:
            found = measured(small, big, batches, threshold, task.target_dictionary)
            print("| {:g} | {:.1%} | {:.2f} |".format(threshold, *found), flush=True)


if __name__ == "__main__":
    main()
