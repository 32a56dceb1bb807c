"""A pretrained BART with the embeddings of another dictionary, row by row by symbol.

fairseq's bart.base and bart.large come with dictionaries that differ in how many unused symbols
fill them up, and both keep a last row for <mask>. Models that verify, draft and teach must share
one dictionary: the rows of its symbols are taken, all else is left out. Symbols that only fill up
(madeupword...) get the row of <unk>; they occur in no text. Heads for classification are left out.

With two of its decoder layers, the first and the last, bart.large is the 12+2 model that Ge et al.
(2022, section 4.1.2, Table 3) train on for grammatical error correction.
"""

import logging
import pathlib
import re
import shutil
import tempfile
from typing import Any

import torch
from average_checkpoints import load
from fairseq.data import Dictionary
from parallel_text import open_member
from recipe_file import sources

from fairseq_specdec.io.atomic import replacing
from fairseq_specdec.training.layers import evenly_spaced

logger = logging.getLogger("pretrained")
TABLES = (
    "encoder.embed_tokens.weight",
    "decoder.embed_tokens.weight",
    "decoder.output_projection.weight",
)
HEADS = "classification_heads."
FILLER = "madeupword"
LAYER = re.compile(r"decoder\.layers\.(\d+)\.(.+)")


def rows(own: Dictionary, wanted: Dictionary) -> list[int]:
    """For each symbol of ``wanted``, its number in ``own``."""
    numbers = []
    for symbol in wanted.symbols:
        if symbol not in own and not symbol.startswith(FILLER):
            raise ValueError(f"the pretrained model's dictionary lacks {symbol!r}: not BART's own?")
        numbers.append(own.index(symbol))
    return numbers


def fit(state: dict[str, Any], own: Dictionary, wanted: Dictionary) -> dict[str, Any]:
    """A checkpoint whose embeddings are those of ``wanted``. ``state``: a fairseq checkpoint;
    changed in place. ``own``: its dictionary, with or without <mask>."""
    chosen = torch.tensor(rows(own, wanted))
    fitted: dict[int, torch.Tensor] = {}  # tables that are one stay one
    for name in TABLES:
        table = state["model"].get(name)
        if table is None:
            continue
        if table.size(0) not in (len(own), len(own) + 1):
            raise ValueError(f"{name} has {table.size(0)} rows, its dictionary {len(own)} symbols")
        state["model"][name] = fitted.setdefault(table.data_ptr(), table[chosen])
    for name in [name for name in state["model"] if name.startswith(HEADS)]:
        del state["model"][name]
    state.pop("last_optimizer_state", None)
    return state


def select_layers(model: dict[str, Any], keep: int) -> dict[str, Any]:
    """The parameters of a model with ``keep`` of its decoder layers, spread evenly, the first and
    the last among them."""
    layers = {name: match for name in model if (match := LAYER.fullmatch(name))}
    total = 1 + max((int(match[1]) for match in layers.values()), default=-1)
    if not 1 <= keep <= total:
        raise ValueError(f"KEEP {keep}: the decoder has {total} layers")
    place = {str(old): new for new, old in enumerate(evenly_spaced(keep, total, single=0))}
    chosen = {name: value for name, value in model.items() if name not in layers}
    for name, (old, rest) in ((name, match.groups()) for name, match in layers.items()):
        if old in place:
            chosen[f"decoder.layers.{place[old]}.{rest}"] = model[name]
    return chosen


def fit_file(
    checkpoint: pathlib.Path,
    dictionary: pathlib.Path,
    wanted: pathlib.Path,
    output: pathlib.Path,
    keep: int | None = None,
) -> None:
    """Write a checkpoint of this dictionary with the embeddings of the wanted one, and ``keep`` of
    its decoder layers (default: all)."""
    own, theirs = (Dictionary.load(str(path)) for path in (dictionary, wanted))
    state = fit(load(checkpoint), own, theirs)
    if keep is not None:
        state["model"] = select_layers(state["model"], keep)
    with replacing(output, "wb", make_folder=True) as stream:
        torch.save(state, stream)
    logger.info("%s: %d of %d symbols", output, len(theirs), len(own))


def fit_archive(
    recipe: pathlib.Path,
    name: str,
    downloads: pathlib.Path,
    wanted: pathlib.Path,
    output: pathlib.Path,
) -> None:
    """The same for a fetched archive, which the recipe lists under ``pretrained``."""
    (source,) = (each for each in sources(recipe, "pretrained") if each.split == name)
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=str(output.parent)) as scratch:
        files = [pathlib.Path(scratch, name) for name in ("model.pt", "dict.txt")]
        for member, path in zip(source.files, files):
            with open_member(downloads / source.name, member) as stream, open(path, "wb") as copy:
                shutil.copyfileobj(stream, copy)
        fit_file(*files, wanted, output)
