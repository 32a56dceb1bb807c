"""The speculative vocabulary: greedy decoding that reads a part of the vocabulary for most tokens.

In a large model most of what a step reads is the vocabulary. Some steps choose among a list of
tokens; then one product of the whole vocabulary over all of them decides what was right. No layer
runs twice, and tokens and scores are those of plain greedy decoding, bit for bit. It resembles
SVD-softmax (Shim et al. 2017), the lexical shortlists of Marian, which change the output, and
FR-Spec (Zhao et al. 2025), which drafts from frequent tokens.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fairseq_specdec.engine.backend import AnySession
from fairseq_specdec.engine.native.decoder import NativeSession
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.contents import WrongFileError, check_content

from .base import DraftSession, NoDrafter, SilentSession, Source

# First tokens of the dictionary, which are its most frequent ones, where no list is given.
_FIRST = 1000
# Weights of a vocabulary that a step reads from memory and not from a cache.
_LARGE = 1 << 23


class VocabularyDrafter(NoDrafter):
    """Drafts nothing: the verifier chooses among a list before its whole vocabulary decides.

    Args:
        tokens: long [n], ids of the list.
        reads_source: the tokens of a batch's sources join it: both sides have one dictionary.
        window: steps between two products of the whole vocabulary; None for as many as pay.
    """

    def __init__(self, tokens: Tensor, reads_source: bool, window: int | None = None) -> None:
        self.tokens, self.reads_source, self.window = tokens, reads_source, window

    def open(self, source: Source) -> DraftSession:
        more = source.net_input["src_tokens"].unique() if self.reads_source else None
        return _VocabularySession(self, more)


class _VocabularySession(SilentSession):
    """Lists tokens for one batch. ``more``: long [m], tokens that join the list."""

    def __init__(self, drafter: VocabularyDrafter, more: Tensor | None) -> None:
        self.drafter, self.more = drafter, more

    def list_tokens(self, verifier: AnySession) -> int:
        assert isinstance(verifier, NativeSession)
        verifier.list_tokens(self.drafter.tokens, self.more)
        return self.drafter.window or -1


def vocabulary_drafter(
    path: str | None, window: int | None, model: Any, src_dict: Any, tgt_dict: Any
) -> NoDrafter:
    """What ``--vocabulary-list`` and ``--vocabulary-window`` ask for. Raises UsageError: the file
    is no list of the dictionary's tokens."""
    size = len(tgt_dict)
    if path is not None:
        tokens = read_list(path, tgt_dict)
    elif window is not None or size * getattr(model.decoder, "output_embed_dim", 0) >= _LARGE:
        tokens = torch.arange(min(_FIRST, size // 2))
    else:
        return NoDrafter()
    if window == 1:
        return NoDrafter()
    joined = src_dict is not None and src_dict.symbols == tgt_dict.symbols
    return VocabularyDrafter(tokens, joined, window)


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
