"""The speculative vocabulary: decoding that reads a part of the vocabulary for most tokens.

In a large model most of what a step reads is the vocabulary. Some steps choose among a list of
tokens; then one product of the whole vocabulary over all of them decides what was right. No layer
runs twice, and tokens and scores are those of plain greedy decoding, bit for bit. The first tokens
of a dictionary of many languages are seldom those of one: there the product in an eighth of its
dimensions, those in which features were seen to differ most, shows a row that is decoded alone
which tokens are likely (as in SVD-softmax, Shim et al. 2017). It resembles Marian's shortlists,
which change the output, and FR-Spec (Zhao et al. 2025), which drafts from frequent tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairseq_specdec.engine.backend import Backend, NativeBackend
from fairseq_specdec.engine.native.decoder import NativeSession
from fairseq_specdec.engine.native.linear import NativeLinear
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.atomic import write_text
from fairseq_specdec.io.contents import WrongFileError, check_content
from fairseq_specdec.io.forks import Lock

# Most tokens of a list: so many, and one of so many of the dictionary. Where none is given they are
# its first ones, which are the most frequent.
LISTED, _ONE_OF = 16000, 5
# Weights of a vocabulary that a step reads from memory and not from a cache.
LARGE = 1 << 23
# What is left of a model's width in a preview: one in so many dimensions, the first for which the
# likeliest token is among these in all but so many steps.
_PREVIEWED = (8, 4)
_LIKELIEST = 32
_MISSED = 0.02
# Tokens whose features show which dimensions matter, and of these the last, which check it.
_OBSERVED, _CHECKED = 512, 128


class Preview(NamedTuple):
    """The vocabulary's product in few dimensions: R of the width C."""

    projection: NativeLinear  # [R, C]
    narrow: NativeLinear  # [V, R], of what the projection gives

    @classmethod
    def of(
        cls, features: Tensor, logits: Callable[[Tensor], Tensor], backend: Backend
    ) -> Preview | None:
        """In the directions in which features [N, C] differ most. ``logits``: [.., V] of them.
        None where too many steps would miss their token."""
        fit, check = features.split((len(features) - _CHECKED, _CHECKED))
        mean, best = fit.mean(0), logits(check).argmax(1, keepdim=True)
        directions = torch.linalg.eigh(torch.cov(fit.t()))[1].t().flip(0)
        exact, packed = (backend.packing(form, frees=False) for form in ("fp32", "int8"))
        bias = logits(torch.zeros(1, features.size(1)))
        for part in _PREVIEWED:
            few = directions[: max(1, features.size(1) // part)].contiguous()
            projection: Any = exact.linear(few, -few @ mean)
            narrow: Any = packed.linear(
                (logits(few) - bias).t().contiguous(), logits(mean[None])[0]
            )
            near = narrow(projection(check)).topk(min(_LIKELIEST, narrow.size)).indices
            if (near != best).all(1).float().mean() <= _MISSED:
                return cls(projection, narrow)
        return None


class Observed:
    """The preview of a verifier, made when enough of its features were seen.

    Args:
        backend: of the verifier.
    """

    features: Tensor | None = None  # [N, C], once a session was opened
    preview: Preview | None = None

    def __init__(self, backend: Backend) -> None:
        self.backend, self.lock, self.done = backend, Lock(), False
        self.noted = torch.zeros(1, dtype=torch.long)

    def open(self, session: NativeSession) -> bool:
        """Let a session's lone row choose by the preview, or show its features. Returns whether
        there is, or will be, a preview."""
        with self.lock:
            if self.features is None:
                self.features = torch.zeros(_OBSERVED, session.weights.stack.width)
            if not self.done and int(self.noted) >= _OBSERVED:
                self.preview = Preview.of(self.features, session.logits, self.backend)
                self.done = True
        if self.preview is not None:
            session.preview(*self.preview, _LIKELIEST)
        elif not self.done:
            session.observe(self.features, self.noted)
        return not self.done or self.preview is not None


class Vocabulary:
    """What the verifier chooses among before its whole vocabulary decides.

    Args:
        tokens: long [n], ids of the list.
        reads_source: the tokens of a batch's sources join it: both sides have one dictionary.
        previews: a lone row needs no list.
        window: steps between two products of the whole vocabulary; None for as many as pay.
    """

    # Once it is prepared, for rows that are decoded alone.
    observed: Observed | None = None

    def __init__(
        self, tokens: Tensor, reads_source: bool, previews: bool, window: int | None = None
    ) -> None:
        self.tokens, self.reads_source = tokens, reads_source
        self.previews, self.window = previews, window

    def prepare(self, backend: Backend) -> None:
        """For a verifier, and its twin, on this backend."""
        if self.previews and self.observed is None and isinstance(backend, NativeBackend):
            self.observed = Observed(backend)

    def open(self, sources: Tensor, session: NativeSession, drafts: bool = False) -> int:
        """Let the session of a batch with these sources (long [B, S]) choose among the tokens.
        ``drafts``: it is of a twin, whose drafts end at each token that is missing.

        Returns:
            steps that do so before the whole vocabulary decides; -1 for as many as pay.
        """
        if self.observed is not None and session.rows == 1 and self.observed.open(session):
            return self.window or (-1 if self.observed.preview is not None else 1)
        if not (drafts and self.previews):
            session.list_tokens(self.tokens, sources.unique() if self.reads_source else None)
        return self.window or -1


def vocabulary_for(
    path: str | None, window: int | None, model: Any, src_dict: Any, tgt_dict: Any
) -> Vocabulary | None:
    """What ``--vocabulary-list`` and ``--vocabulary-window`` ask for; None where each step reads
    the whole vocabulary. Raises UsageError: the file is no list of the dictionary's tokens."""
    size = len(tgt_dict)
    if path is not None:
        tokens = read_list(path, tgt_dict)
    elif window is not None or size * getattr(model.decoder, "output_embed_dim", 0) >= LARGE:
        tokens = torch.arange(min(LISTED, size // _ONE_OF))
    else:
        return None
    if window == 1:
        return None
    joined = src_dict is not None and src_dict.symbols == tgt_dict.symbols
    return Vocabulary(tokens, joined, path is None and size // _ONE_OF > LISTED, window)


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


def write_list(path: str, dictionary: Any, used: Counter[int], before: Sequence[int] = ()) -> None:
    """Write the most used tokens, then those of ``before``, whole or not at all."""
    ids = dict.fromkeys([*(token for token, _ in used.most_common()), *before])
    names = [name for name in map(dictionary.__getitem__, ids) if name.split() == [name]]
    listed = names[: min(LISTED, len(dictionary) // _ONE_OF)]
    write_text(path, "".join(f"{name}\n" for name in listed))
