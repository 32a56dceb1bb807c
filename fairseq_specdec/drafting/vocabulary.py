"""The speculative vocabulary: decoding that reads a part of the vocabulary for most tokens.

In a large model most of what a step reads is the vocabulary. Some steps choose among a list of
tokens; then one product of the whole vocabulary over all of them decides what was right. No layer
runs twice, and tokens and scores are those of plain greedy decoding, bit for bit. A row that is
decoded alone needs no list: the product in a quarter of its dimensions shows which tokens are
likely (SVD-softmax, Shim et al. 2017). It resembles the lexical shortlists of Marian, which change
the output, and FR-Spec (Zhao et al. 2025), which drafts from frequent tokens.
"""

from __future__ import annotations

import copy
import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_specdec.engine.backend import Backend, NativeBackend, tell_once
from fairseq_specdec.engine.memory import packed_source
from fairseq_specdec.engine.native.decoder import NativeSession
from fairseq_specdec.engine.native.linear import NativeLinear
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.atomic import write_text
from fairseq_specdec.io.contents import WrongFileError, check_content

# First tokens of the dictionary, which are its most frequent ones, where no list is given.
_FIRST = 1000
# Most tokens of a list that is learnt from outputs.
_LEARNT = 2000
# Weights of a vocabulary that a step reads from memory and not from a cache.
_LARGE = 1 << 23
# What is left of a model's width in a preview: one in so many dimensions. The demo pair's likeliest
# token is then not among these in 0.9 of 100 steps.
_PREVIEWED = 4
_LIKELIEST = 32
# Rows of the vocabulary at a time.
_ROWS = 1 << 14


class Preview(NamedTuple):
    """The vocabulary's product in few dimensions: R of the width C."""

    projection: NativeLinear  # [R, C]
    narrow: NativeLinear  # [V, R], of what the projection gives

    @classmethod
    def of(cls, output: Any, backend: Backend) -> Preview:
        """Of nn.Linear [V, C]: what its rows are in the R directions in which they are longest, by
        a part of them."""
        size, width = output.weight.shape
        weight = output.weight
        some = F.embedding(torch.linspace(0, size - 1, 4 * width).long(), weight).float()
        longest = torch.linalg.eigh(some.t() @ some)[1][:, -(width // _PREVIEWED) :].contiguous()
        parts = torch.arange(size).split(_ROWS)
        narrow = torch.cat([F.embedding(part, weight).float() @ longest for part in parts])
        projection = backend.linear(longest.t().contiguous(), None)
        packed = backend.packing("int8", frees=False).linear(narrow, output.bias)
        assert isinstance(projection, NativeLinear) and isinstance(packed, NativeLinear)
        return cls(projection, packed)


class Vocabulary:
    """What the verifier chooses among before its whole vocabulary decides.

    Args:
        tokens: long [n], ids of the list.
        reads_source: the tokens of a batch's sources join it: both sides have one dictionary.
        previews: a lone row needs no list.
        window: steps between two products of the whole vocabulary; None for as many as pay.
    """

    # Once it is prepared: made for the first row that is decoded alone, which takes seconds.
    preview: Callable[[], Preview] | None = None

    def __init__(
        self, tokens: Tensor, reads_source: bool, previews: bool, window: int | None = None
    ) -> None:
        self.tokens, self.reads_source = tokens, reads_source
        self.previews, self.window = previews, window

    def prepare(self, verifier: Any, backend: Backend) -> Vocabulary:
        """The same for a verifier's model, whose weights it reads."""
        if not (self.previews and isinstance(backend, NativeBackend)):
            return self
        ready, output = copy.copy(self), verifier.decoder.output_projection
        held = packed_source(output)
        if held is not None and not held.product.exact:
            return self  # what it is made from is gone
        make = functools.partial(Preview.of, output, backend)
        ready.preview = functools.cache(lambda: backend.once(("preview", verifier), make))
        return ready

    def open(self, sources: Tensor, session: NativeSession) -> int:
        """Let the session of a batch with these sources (long [B, S]) choose among the tokens.

        Returns:
            steps that do so before the whole vocabulary decides; -1 for as many as pay.
        """
        session.list_tokens(self.tokens, sources.unique() if self.reads_source else None)
        if self.preview is not None and session.rows == 1:
            session.preview(*self.preview(), _LIKELIEST)
        return self.window or -1


def vocabulary_for(
    path: str | None, window: int | None, model: Any, src_dict: Any, tgt_dict: Any
) -> Vocabulary | None:
    """What ``--vocabulary-list`` and ``--vocabulary-window`` ask for; None where each step reads
    the whole vocabulary. Raises UsageError: the file is no list of the dictionary's tokens."""
    size = len(tgt_dict)
    if path is not None:
        tokens = read_list(path, tgt_dict)
    elif window is not None or size * getattr(model.decoder, "output_embed_dim", 0) >= _LARGE:
        tokens = torch.arange(min(_FIRST, size // 2))
    else:
        return None
    if window == 1:
        return None
    joined = src_dict is not None and src_dict.symbols == tgt_dict.symbols
    return Vocabulary(tokens, joined, path is None, window)


def read_list(path: str, dictionary: Any) -> Tensor:
    """Token ids of a file that has a token of the dictionary per line, whatever follows it (as in
    dict.txt)."""
    flag = f"--vocabulary-list {path}"
    try:
        check_content(path, "a list of tokens")
        with open(path, encoding="utf-8-sig") as stream:
            listed = [line.split()[0] for line in stream if line.strip()]
    except WrongFileError as error:
        raise UsageError(flag, error.problem, error.remedy) from error
    except UnicodeDecodeError as error:
        raise UsageError(flag, "is not text in UTF-8") from error
    except OSError as error:
        raise UsageError(flag, error.strerror, "name a file with one token per line") from error
    for token in listed:
        if token not in dictionary:
            raise UsageError(
                flag, f"'{token[:40]}' is not in the model's dictionary", "list its subwords"
            )
    if not 0 < len(listed) <= len(dictionary) / 2:
        raise UsageError(
            flag, f"has {len(listed)} tokens", f"list 1 to {len(dictionary) // 2} of the dictionary"
        )
    return torch.tensor([dictionary.index(token) for token in listed])


def write_list(path: str, dictionary: Any, used: Counter[int], before: Sequence[int]) -> None:
    """Write the most used tokens, then those of ``before``, whole or not at all (logged)."""
    ids = dict.fromkeys([*(token for token, _ in used.most_common()), *before])
    names = [name for name in map(dictionary.__getitem__, ids) if name.split() == [name]]
    listed = names[: min(_LEARNT, len(dictionary) // 2)]
    try:
        write_text(path, "".join(f"{name}\n" for name in listed))
    except OSError as error:
        tell_once(f"--learn-vocabulary {path} is not written: {error.strerror}")
