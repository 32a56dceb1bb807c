"""Decoding with the small models of Big Little Decoder."""

from models import decode_each
from recipe import Settings
from step import Step


def systems(settings: Settings, folder: str) -> dict[str, list[str]]:
    """Model and flags of each system, by its name. ``folder``: of this recipe's models."""
    verifier = settings["VERIFIER"]
    exits = ["--alpha-fb", settings["EXIT_ALPHA_FB"], "--alpha-rb", settings["EXIT_ALPHA_RB"]]
    thresholds = ["--alpha-fb", settings["ALPHA_FB"], "--alpha-rb", settings["ALPHA_RB"]]
    little = {name: ["--strategy", "bild", "--drafter-path", f"{folder}/{name}/model.pt"]
              for name in ("small", "aligned")}  # fmt: skip
    return {
        "unaligned": [verifier, *little["small"], *thresholds],
        "aligned": [verifier, *little["aligned"], *thresholds],
        "early_exit": [f"{folder}/early_exit/model.pt", "--strategy", "bild-early-exit", *exits],
    }


def decode(step: Step) -> None:
    """An action: decode greedily and with each system."""
    greedy = ["greedy", step["VERIFIER"], "--strategy", "greedy"]
    rows = systems(step.settings, step["OUT"])
    decode_each(step, [greedy, *([name, *words] for name, words in rows.items())])
