"""Blockwise heads on a trained verifier, which stays as it is or is tuned with them."""

import re
from typing import NamedTuple

from launch import Devices
from models import corpus_files, train_model
from recipe import Settings, StepError
from step import Step

# At 5e-4 and without the frozen heads to start from, tuning spoils the base: the demo verifier fell
# from 37 to 10 BLEU in 300 updates.
NAME = re.compile(r"(original|distilled)/(frozen|tuned)_([2-9]|[1-9][0-9]+)")


class Heads(NamedTuple):
    """A model: trained on which corpus, the base frozen or tuned, and how many heads."""

    name: str
    corpus: str
    way: str
    k: str


def chosen(settings: Settings) -> list[Heads]:
    """The models that MODELS names."""
    heads = []
    for name in settings.words("MODELS"):
        match = NAME.fullmatch(name)
        if not match:
            raise StepError(
                f"MODELS: {name} is not CORPUS/WAY_K with CORPUS original or distilled, WAY frozen "
                "or tuned, and K 2 or more"
            )
        heads.append(Heads(name, *match.groups()))
    return heads


def train(step: Step) -> None:
    """An action: train the heads of each model.

    A tuned model starts from the frozen one of the same corpus and k, if there is one.
    """
    step.need("fairseq-train")
    models, verifier, out = chosen(step.settings), step["VERIFIER"], step.path("OUT")
    devices, pair = Devices(step), (step["SRC"], step["TGT"])
    for heads in models:
        step.commands = []
        tuned, folder = heads.way == "tuned", out / heads.name
        corpus = step["DISTILLED" if heads.corpus == "distilled" else "BIN"]
        inputs = [verifier, *corpus_files(corpus, *pair)]
        start = out / heads.corpus / f"frozen_{heads.k}" / "model.pt"
        before = heads._replace(name=f"{heads.corpus}/frozen_{heads.k}", way="frozen")
        if tuned and (before in models if step.dry else start.exists()):
            inputs.append(start)
        record, output = folder / "provenance.json", folder / "model.pt"
        if step.finished(record, inputs):
            continue
        base = [] if tuned else ["--freeze-base"]
        base += ["--finetune-from-model", start] if start in inputs else []
        step.log(heads.name)
        train_model(
            step, devices, corpus, pair, output,
            step.settings.number("TUNED_UPDATES" if tuned else "HEAD_UPDATES"),
            "--arch", "blockwise_transformer", "--init-from", verifier, "--block-size", heads.k,
            "--first-head", step["FIRST_HEAD"], *base, "--criterion", "blockwise_loss",
            "--label-smoothing", "0", "--lr", step["TUNED_LR" if tuned else "FROZEN_LR"],
            "--max-tokens", step["TOKENS"], "--skip-invalid-size-inputs-valid-test",
        )  # fmt: skip
        if not tuned:
            # Training in half precision rounds the base too: put it back, so that the output stays.
            step.average(output, output, "--frozen", verifier)
        step.record(record, inputs, output)
