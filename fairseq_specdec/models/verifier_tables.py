"""A verifier's vocabulary tables, as those of its drafter (``--verifier-embeddings``).

Token embeddings and output projection are most of a small drafter of a large vocabulary: 262
million numbers of 256,206 words 1,024 wide. The drafter that uses its verifier's learns, stores and
loads none.
"""

import copy
from typing import Any

from torch import Tensor, nn

TABLES = ("embed_tokens", "output_projection")
"""Names of the two modules in a decoder."""


def shallow(module: Any) -> Any:
    """A module with the same parameters and submodules, some of which may then be replaced."""
    made = copy.copy(module)
    made._modules = copy.copy(module._modules)
    return made


class VerifierTable(nn.Module):
    """A module of the verifier in the place of a drafter's own: without parameters, so that it is
    neither trained nor stored with the drafter. ``theirs``: None of no verifier yet."""

    def __init__(
        self, padding_idx: int, embedding_dim: int, theirs: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.padding_idx, self.embedding_dim = padding_idx, embedding_dim
        self._theirs: list[Any] = [theirs]  # in a list, nn.Module does not register it

    @property
    def weight(self) -> Tensor:
        """[V, C]."""
        weight: Tensor = self._theirs[0].weight
        return weight

    def forward(self, x: Tensor) -> Tensor:
        """What the verifier's module gives."""
        embedded: Tensor = self._theirs[0](x)
        return embedded


def reads_tables(model: Any) -> bool:
    """Whether a drafter's model uses its verifier's vocabulary tables."""
    return isinstance(model.decoder.embed_tokens, VerifierTable)


def why_not(verifier: Any, width: int, layer: int, words: int | None) -> str:
    """Why a drafter cannot read a verifier; or "".

    Args:
        width: of the drafter.
        layer: the last decoder layer that it reads, counted from 1.
        words: of its target dictionary where it uses the verifier's tables, else None.
    """
    decoder = verifier.decoder
    theirs = decoder.cfg.encoder.embed_dim, decoder.embed_dim
    if theirs != (width, width):
        return f"is {theirs[0]} wide in its encoder and {theirs[1]} in its decoder"
    if decoder.project_out_dim is not None:
        return "has a --decoder-output-dim of its own"
    if layer > len(decoder.layers):
        return f"has {len(decoder.layers)} decoder layers"
    for name in TABLES if words is not None else ():
        table = getattr(decoder, name, None)
        if not isinstance(table, (nn.Embedding, nn.Linear)):
            return f"has no decoder.{name} (an adaptive softmax or input?)"
        rows, columns = next(table.parameters()).shape
        if (rows, columns) != (words, width):
            return f"has {rows} words {columns} wide in decoder.{name}"
    return ""


def with_tables(model: Any, verifier: Any) -> Any:
    """A drafter's model in which a verifier's modules stand where it has none of its own.

    Its other modules are shared with the model that was given, which stays as it is: generators of
    several verifiers may share that. In another precision than the verifier's the tables are
    copies.
    """
    if not reads_tables(model):
        return model
    made, decoder = shallow(model), shallow(model.decoder)
    dtype = decoder.mask_embedding.dtype
    for name in TABLES:
        table = getattr(verifier.decoder, name)
        if next(table.parameters()).dtype != dtype:
            table = copy.deepcopy(table).to(dtype)
        decoder._modules[name] = table
    made._modules["decoder"] = decoder
    return made
