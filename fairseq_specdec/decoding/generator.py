"""The generator that all strategies share."""

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from fairseq_specdec.acceptance import AcceptanceRule
from fairseq_specdec.drafting import Drafter, NoDrafter
from fairseq_specdec.drafting.vocabulary import Vocabulary
from fairseq_specdec.engine.backend import anew, choose_backend
from fairseq_specdec.engine.torch_graphs import graphs_for
from fairseq_specdec.engine.transformer import Verifier
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.forks import Lock

from .batch import DecodingParts, OpenBatch
from .beam.native import NativeBeams
from .beam.torch_beams import TorchBeams
from .greedy import Batch
from .nar import NarBatch
from .native_chains import native_form
from .options import DecodingOptions
from .pace import Planning, planning_for
from .policy import DecodingConstraints
from .stats import DecodingStats

logger = logging.getLogger(__name__)


class SpeculativeGenerator(SequenceGenerator):
    """Decodes as stock ``SequenceGenerator`` does, in fewer verifier passes.

    Threads may share one: what changes lives in a ``Batch``. Its settings stay as they were built;
    ``refresh`` makes it read the models' weights again.

    Args:
        models: the ensemble.
        tgt_dict: the target dictionary.
        drafter: proposes blocks.
        rule: accepts draft tokens.
        policy: decoding constraints.
        options: all other settings.
        stats: counters to add to.
        planning: decides how much to draft, where drafts need not be whole; None for what the
            options say.
        once: a ``Once`` of all generators that share these models' packed weights.
        vocabulary: what the verifier chooses among first; None for all tokens.
    """

    def __init__(
        self,
        models: Sequence[Any],
        tgt_dict: Any,
        drafter: Drafter,
        rule: AcceptanceRule,
        policy: DecodingConstraints,
        options: DecodingOptions,
        stats: DecodingStats | None = None,
        planning: Planning | None = None,
        once: Any = anew,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        super().__init__(
            list(models),
            tgt_dict,
            beam_size=options.beam,
            max_len_a=policy.max_len_a,
            max_len_b=policy.max_len_b,
            min_len=policy.min_len,
            normalize_scores=options.normalize_scores,
            len_penalty=options.len_penalty,
            unk_penalty=policy.unk_penalty,
            temperature=options.temperature,
            no_repeat_ngram_size=policy.no_repeat_ngram_size,
            eos=policy.eos,
            symbols_to_strip_from_output=set(options.hidden),
        )
        self.drafter = drafter
        self.rule = rule
        self.policy = policy
        self.options = options
        self.stats = stats or DecodingStats()
        self.planning = planning
        self.vocabulary = vocabulary
        self._once = once
        self._lock = Lock()
        self._parts: DecodingParts | None = None

    @property
    def models(self) -> list[Any]:
        """The ensemble that the generator was built for."""
        return list(self.model.models)

    @property
    def strategy(self) -> str:
        """``--strategy``."""
        return self.options.strategy

    def refresh(self) -> None:
        """The models' weights changed: read them again before the next batch."""
        with self._lock:
            self._parts, self._once = None, anew

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        """As torch's, which moves and converts the models: their weights are read again."""
        self.refresh()
        return super()._apply(*args, **kwargs)

    @torch.no_grad()
    def generate(
        self,
        models: list[Any],
        sample: dict[str, Any],
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
        bos_token: int | None = None,
        **unused: Any,
    ) -> list[list[dict[str, Any]]]:
        """Decode a batch.

        Args:
            models: the ensemble; where it is another than before, its weights are read.
            sample: fairseq batch with ``net_input``; ``batch_size`` is the sentences of a full one,
                which the output of gad++ depends on (default: those of this one);
                ``draft_tokens`` are what ``--strategy given`` drafts, as in ``OpenBatch``.
            prefix_tokens: long [B, P] forced first tokens, padded on the right; any token may stand
                where padding is.
            constraints: refused.
            bos_token: first decoder input instead of </s>.

        Returns:
            For each sentence its hypotheses, best first.

        Raises:
            ValueError: constraints given, the length limits contradict each other, or prefixes are
                not those of as many sentences.
        """
        if constraints is not None:
            raise UsageError("--constraints", "not supported by --task translation_specdec")
        with self.batch(models, sample, prefix_tokens, bos_token) as batch:
            list(batch.results())
        return batch.finished

    @contextlib.contextmanager
    def batch(
        self,
        models: Sequence[Any],
        sample: dict[str, Any],
        prefix_tokens: Tensor | None = None,
        bos_token: int | None = None,
    ) -> Iterator[OpenBatch]:
        """A batch to iterate by hand (arguments as for ``generate``); counted when left.

        A thread that has several leaves the one first that it entered last: each sets the mode of
        autograd for the thread.
        """
        # Inference mode where no training follows.
        with torch.inference_mode() if self.options.inference else torch.no_grad():
            parts = self.parts(models)
            kind: type[OpenBatch] = Batch if self.options.verifies else NarBatch
            if self.options.beam > 1:
                kind = TorchBeams if parts.native is None else NativeBeams
            rows = len(sample["net_input"]["src_tokens"])
            prefix = _prefix(prefix_tokens, rows)
            full = sample.get("batch_size") or rows
            drafts = sample.get("draft_tokens")
            batch = kind(parts, sample["net_input"], prefix, bos_token, full, drafts)
            try:
                yield batch
            finally:
                batch.close()
                with self._lock:
                    self.stats.add(batch.stats)

    def forward(
        self,
        sample: dict[str, Any],
        prefix_tokens: Tensor | None = None,
        bos_token: int | None = None,
    ) -> list[list[dict[str, Any]]]:
        """As ``generate``, with the models that the generator was built for."""
        return self.generate(self.models, sample, prefix_tokens, bos_token=bos_token)

    def parts(self, models: Sequence[Any] = ()) -> DecodingParts:
        """What decodes, with the weights of these models (default: those that the generator was
        built for), which are read if they were not."""
        models = models or self.models
        with self._lock:
            parts = self._parts
            known = parts.verifier.models if parts is not None else []
            if len(known) != len(models) or any(a is not b for a, b in zip(models, known)):
                parts = self._parts = self._read(models)
            assert parts is not None
            return parts

    def _read(self, models: Sequence[Any]) -> DecodingParts:
        options, drafter = self.options, self.drafter
        graphs, asked, frees = None, options.backend, options.free_unpacked
        if options.verifies:
            most = getattr(drafter, "block_size", None)
            graphs = graphs_for(options.cuda_graphs, models, most)
        if options.beam > 1 and not drafter.for_beams:
            reason = f"--strategy {options.strategy} drafts for one hypothesis only"
            logger.info("--beam %d: beam search without drafts: %s", options.beam, reason)
            drafter = NoDrafter()
        how = graphs, frees, self._once, drafter.twin
        backend = choose_backend(asked, models, options.verifier_format, *how)
        layers, verifies = drafter.read_layers, options.verifies
        verifier = Verifier(models, options.temperature, layers, backend, verifies)
        ready = drafter.prepare(verifier.models[0], backend)
        native, planning = None, None
        if self.vocabulary is not None:
            self.vocabulary.prepare(backend)
        if verifies:
            native = native_form(verifier, self.policy, self.rule if options.beam == 1 else None)
        plans = self.rule.draft_independent or options.plans_once
        if options.beam == 1 and plans and drafter.adaptive and options.draft_budget != 0:
            sampled = not self.rule.lossless and self.rule.draft_independent
            planning = self.planning or planning_for(
                verifier, ready, options, native is not None, sampled
            )
            planning.begin(drafter.first_chance)
        return DecodingParts(
            verifier, ready, self.rule, self.policy, options, native, planning, self.vocabulary
        )


def _prefix(given: Tensor | None, rows: int) -> Tensor | None:
    """Prefixes of so many sentences as the loops read them; ValueError for those of others."""
    if given is None:
        return None
    if given.dim() != 2 or given.size(0) != rows:
        raise UsageError(
            "prefix_tokens",
            f"shape {tuple(given.shape)} does not fit a batch of {rows} sentences",
            f"give [{rows}, P] token ids, padded on the right",
        )
    return given.long().contiguous()
