"""The contract between a drafter and the decoding loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from fairseq_specdec.acceptance.sampling import Sampler
from fairseq_specdec.engine.backend import TORCH, AnySession, Backend, NativeBackend
from fairseq_specdec.engine.devices import DTYPES, supported
from fairseq_specdec.engine.native.packed_file import number_format_of
from fairseq_specdec.engine.native.structures import Drafting
from fairseq_specdec.engine.state import Draft, Rows
from fairseq_specdec.engine.torch_graphs import Inputs, Outputs, Pass
from fairseq_specdec.errors import UsageError

Budget = int | None
Costs = Sequence[float] | None
Run = Callable[[tuple[Any, ...], Pass, Inputs], Outputs | None]


class Source(NamedTuple):
    """What a drafter may know of a batch before its first draft.

    Attributes:
        net_input: fairseq's ``sample["net_input"]`` (src_tokens [B, S], src_lengths [B]).
        encoder_out: the (first) verifier's encoder output, as fairseq gives it.
        max_len: most target tokens before </s>.
        timer: ``with timer(section)`` times the section ``drafter_encoder``, and the start of a
            batch as ``drafter``.
        verifier: the (first) verifier's session, whose ``states`` hold the drafter's
            ``read_layers``; None where nothing verifies.
        draft_tokens: long [B, D], texts that the outputs are expected to be like, each with </s>,
            padded; or None.
    """

    net_input: dict[str, Any]
    encoder_out: dict[str, Any]
    max_len: int
    timer: Callable[[str], AbstractContextManager[None]]
    verifier: AnySession | None = None
    draft_tokens: Tensor | None = None

    @property
    def padded(self) -> bool | None:
        """Whether a source is padded, as the verifier's encoder found; None where it did not."""
        masks = self.encoder_out.get("encoder_padding_mask")
        return None if masks is None else len(masks) > 0


@dataclass(frozen=True)
class DraftOptions:
    """How a drafter that is a model drafts."""

    block_size: int  # k, most draft tokens of an iteration, 1 or more
    pad: int  # padding index, never drafted
    eos: int  # index of </s>; nothing is drafted after it
    # to run in, one of ``OF_DRAFTERS``; None for the verifier's. int8 on the native backend alone
    number_format: str | None = None
    # end a draft before the first token that, with all before it, is right with less probability
    # than this by the drafter's own estimate; 0 drafts whole blocks
    confidence: float = 0.0
    # a small model stops before the first token that was to come from a distribution whose largest
    # probability is below this (alpha_FB of Kim et al. 2023, equation 3), 0 to 1; 0 never stops
    stop_below: float = 0.0
    temperature: float = 1.0  # divides the logits
    # draws the tokens, and their distributions are kept; None drafts the likeliest ones
    sampler: Sampler | None = None
    any_format: bool = False  # ``number_format`` was not asked for: the verifier's will do
    any_confidence: bool = False  # ``confidence`` was not: drafts may end where more do not pay
    # the drafts of a row do not depend on how many rows there are, nor on their lengths
    row_independent: bool = False
    verified: bool = True  # a verifier judges the drafts; else they are the output
    scored: bool = False  # a small model's drafts have their tokens' log-probabilities


class DraftSession:
    """Drafts for the live rows of one batch.

    Class attributes:
        never_drafts: it never drafts anything, so that it need not be asked.
    """

    never_drafts = False

    def native_form(self, rows: Rows, budget: Budget, costs: Costs) -> Drafting | None:
        """How the native library drafts as ``propose`` does, which has these arguments, between the
        verifications of a call; None where it cannot. What it points to is kept by it."""
        return None

    def propose(self, rows: Rows, budget: Budget = None, costs: Costs = None) -> Draft:
        """Draft the tokens that follow the accepted ones.

        Args:
            rows: what was accepted.
            budget: draft tokens of a row that the loop can use; None for any number. A drafter may
                draft more, which is cut off. At 0 it drafts nothing.
            costs: of ``Plan``: a drafter that estimates how likely its tokens are accepted drafts
                so many that those expected to be accepted exceed the cost by most.
        """
        raise NotImplementedError

    def replay(self, rows: Rows, budget: Budget, run: Run) -> Outputs | None:
        """What ``run`` gives that has the arguments of ``Recordings.run`` and records a draft as
        ``propose`` makes it, long [B, N] and sizes long [B]; None where it cannot be recorded. The
        first input is long [B, T], and N the second entry of the key."""
        return None

    def likely_copied(self, row: int) -> Sequence[int]:
        """The tokens, in their order, that the hypotheses of a beam search probably repeat."""
        return ()

    def keep(self, rows: Tensor, kept: list[int]) -> None:
        """Keep only these rows (ascending numbers; on the device and as Python ints)."""

    def close(self) -> None:
        """End the batch; other batches may use its buffers."""


class Drafter:
    """Proposes tokens. A drafter holds its settings, and its model if it has one; ``prepare`` gives
    one that holds the weights too. Batches of many threads share that one; nothing of it changes.

    Class attributes:
        read_layers: the verifier's decoder layers, counted from 1, whose hidden states its sessions
            want; empty for a drafter that reads none.
        adaptive: the loop may leave it out of an iteration, or ask for fewer tokens.
        for_beams: its sessions can draft for the hypotheses of a beam search.
        runs_model: a draft takes passes of a model.
        in_library: a call of the native library makes its drafts between verifications.
        block_size: most draft tokens of an iteration; None where there is no limit.
        ends_early: it drafts fewer tokens than it is asked for where it expects the others to be
            rejected.
        whole_on_gpu: a GPU drafts a whole block in about the time of one token.
        first_chance: of a draft token to be accepted after accepted ones, before any was.
        twin: number format of the verifier's copy that it reads; None where it reads none.
    """

    for_beams = False
    runs_model = True
    in_library = False
    ends_early = False
    whole_on_gpu = False
    first_chance = 0.75
    twin: str | None = None
    block_size: int | None = None
    read_layers: Sequence[int] = ()
    adaptive = True

    def prepare(self, verifier: Any, backend: Backend = TORCH) -> Drafter:
        """Read the weights: before the first batch, and when they have changed.

        Args:
            verifier: the (first) verifier's model; a drafter's own model is moved to its device and
                precision.
            backend: what runs a drafter that is a model.

        Returns:
            What opens batches: a copy with the weights of this reading, which batches keep that are
            open when weights are read anew; a drafter without weights returns itself.
        """
        return self

    def open(self, source: Source) -> DraftSession:
        """Begin a batch; the drafter is one that ``prepare`` gave."""
        raise NotImplementedError


class SilentSession(DraftSession):
    """Drafts nothing: for plain greedy decoding, and for a batch that a drafter cannot read."""

    never_drafts = True

    def propose(self, rows: Rows, budget: Budget = None, costs: Costs = None) -> Draft:
        return Draft.empty(rows.lengths)


class NoDrafter(Drafter):
    """Drafts nothing: plain greedy decoding or beam search on this project's engine."""

    adaptive = False  # there is nothing to leave out
    for_beams = True
    runs_model = False

    def open(self, source: Source) -> DraftSession:
        return SilentSession()


def move_to_verifier(
    model: Any, verifier: Any, options: DraftOptions, backend: Backend = TORCH
) -> Backend:
    """Move a drafter's model to the verifier's device, and to its own or the verifier's format.

    fairseq moves, and converts to fp16, the models of ``--path`` only.

    Returns:
        What runs the drafter: ``backend`` in the format that was asked for (int8 from a model that
        keeps the verifier's); one whose weights are packed already runs in their format.

    Raises:
        ValueError: the weights were packed for another format or backend than is asked for.
    """
    packed = number_format_of(model)
    if packed is not None:
        _check_packed(packed, options, backend)
        return backend.packing(packed)
    name = options.number_format
    if name is not None and backend.name == "native":
        backend = backend.packing("fp32" if name == "fp16" else name)  # it holds fp16's numbers
    elif name == "int8" and not options.any_format:
        backend = backend.packing(name)
    like = next(verifier.parameters())
    dtype = None if name is None else DTYPES.get(name)
    wanted = like.dtype if dtype is None else supported(dtype, like.device)
    if any(p.device != like.device or p.dtype != wanted for p in model.parameters()):
        model.to(device=like.device, dtype=wanted)
    return backend


def _check_packed(packed: str, options: DraftOptions, backend: Backend) -> None:
    """Refuse to run weights of ``specdec-convert pack`` otherwise than they were packed for."""
    if not isinstance(backend, NativeBackend):
        raise UsageError(
            "--drafter-path",
            "its weights are packed for the native backend on a CPU",
            "use the checkpoint that they were packed from",
        )
    asked = options.number_format
    if not options.any_format and packed != (asked or backend.number_format):
        raise UsageError(
            f"--drafter-dtype {asked or 'same'}",
            f"the weights of --drafter-path are packed in {packed}",
            "leave it out, or use the checkpoint that they were packed from",
        )
