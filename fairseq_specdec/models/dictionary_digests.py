"""Settings of this project's models name the dictionaries they were trained with, by SHA-256.

A checkpoint holds no dictionary. Another one of the same size, in another order, would be decoded
with without a word.
"""

import hashlib
import re
from typing import Any

from fairseq_specdec.checkpoints.architectures import built_from
from fairseq_specdec.checkpoints.content import get_setting, set_setting
from fairseq_specdec.checkpoints.settings import RefusedCheckpointError

SIDES = ("source", "target")


def setting_of(side: str) -> str:
    """The setting that holds the digest of a side."""
    return f"{side}_dictionary_sha256"


def digest_of(dictionary: Any) -> str:
    """SHA-256 of a dictionary's symbols in their order, in hexadecimal; counts do not matter."""
    text = "\n".join(dictionary.symbols)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def kept_digests(settings: Any, path: str) -> dict[str, str]:
    """The digests that a checkpoint's settings have, by setting; none in older ones."""
    kept = {}
    for name in map(setting_of, SIDES):
        value = get_setting(settings, name)
        if value is None:
            continue
        if not isinstance(value, str) or not re.fullmatch("[0-9a-f]{64}", value):
            raise RefusedCheckpointError(
                path, f"its setting {name} is no SHA-256 in hexadecimal", "do not use this file"
            )
        kept[name] = value
    return kept


def settle_dictionaries(settings: Any, source: Any, target: Any) -> None:
    """Keep the dictionaries' digests in training; compare them where a checkpoint is loaded.

    Args:
        settings: of the model; changed in place in training, where they become the checkpoint's.
        source, target: dictionaries; None of a source that is no text.

    Raises:
        RefusedCheckpointError: the checkpoint was trained with other symbols, or another order;
            names it and the dictionary's file where that is known.
    """
    path = built_from()
    kept = {} if path is None else kept_digests(settings, path)
    for side, dictionary in zip(SIDES, (source, target)):
        if dictionary is None:
            continue
        name, digest = setting_of(side), digest_of(dictionary)
        if path is None:
            set_setting(settings, **{name: digest})
        elif kept.get(name, digest) != digest:
            given = getattr(dictionary, "file", None) or f"the {side} dictionary of the data"
            raise RefusedCheckpointError(
                path,
                f"was trained with a {side} dictionary whose symbols or their order differ "
                f"from those of {given}",
                "use the dict.*.txt of its training",
            )
