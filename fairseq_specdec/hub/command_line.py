"""Errors of the Python interface in the words of a command."""

import re
from typing import Any

from .described import Described, describe
from .flags import GENERATION, OWN

_ARGUMENTS = (
    "data", "source_lang", "target_lang", "tokenizer", "bpe", "bpe_codes", "device", "dtype",
    "strategy", "batch_size", *OWN, *GENERATION,
)  # fmt: skip


def described(path: str, source: str | None, target: str | None) -> Described:
    """``describe`` for a checkpoint in a converted folder; its errors name flags."""
    try:
        description = describe([path], source, target)
    except ValueError as error:
        raise ValueError(at_the_prompt(str(error))) from error
    assert description is not None
    return description


def at_the_prompt(message: str) -> str:
    """An error of the Python interface, with flags in place of its arguments."""
    message = re.sub(r"^verifier\b", "--path", message)
    words = "|".join(sorted(_ARGUMENTS, key=len, reverse=True))

    def flag(match: Any) -> str:
        return "--" + str(match.group(1)).replace("_", "-")

    message = re.sub(rf"^({words})\b", flag, message)
    message = message.replace("bpe=None", "--bpe none")
    message = re.sub(rf"\b({words})=\.\.\.", flag, message)
    return re.sub(rf"\b({words})='([^']*)'", lambda m: f"{flag(m)} {m.group(2)}", message)
