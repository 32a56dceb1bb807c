"""CTranslate2 in the engine's place: the same application, queue and text handling."""

import argparse
import tempfile
from collections.abc import Iterator
from typing import Any

from fairseq_specdec.bench.child import call_once
from fairseq_specdec.bench.peers import WORKER, legible
from fairseq_specdec.bench.peers.ctranslate2 import Model
from fairseq_specdec.errors import UsageError
from fairseq_specdec.hub import SpeculativeTranslator, Translation
from fairseq_specdec.hub.command_line import verifier_of
from fairseq_specdec.hub.loading import find

from ..cli import translator_of
from ..limits import Limits
from ..scheduler import Row
from ..service import Service

KINDS = ("float32", "int8")
# Its batches of two are faster than two sentences one at a time.
_SMALLEST = 2.0


class PeerTranslator:
    """A translator whose sentences another engine decodes; all else is the translator's own."""

    def __init__(
        self,
        translator: SpeculativeTranslator,
        model: Any,
        beam: int,
        max_len_a: float,
        max_len_b: int,
    ) -> None:
        self._own = translator
        self._model = model
        self._beam = beam
        self._longest = (max_len_a, max_len_b)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def translate_encoded(self, rows: list[Row]) -> Iterator[tuple[int, Translation]]:
        """As of ``SpeculativeTranslator``; the sentences of a batch end together."""
        share, more = self._longest
        limit = int(share * max(map(len, rows))) + more
        outputs = self._model.run(self._model.inputs(rows), limit, self._beam)
        codec = self._own.codec
        for i, tokens in enumerate(self._model.tokens(outputs)):
            words = codec.words(tokens)
            yield i, Translation(codec.join(words), words, 0.0, len(tokens), [], [], 0)


def service(kind: str, args: argparse.Namespace, limits: Limits) -> Service:
    """The service of a command line, with CTranslate2 in the engine's place."""
    verifiers = find(verifier_of(args), None, args.data, "greedy").verifiers
    if len(verifiers) > 1:
        raise UsageError("--bench-peers", "CTranslate2 decodes no ensembles", "leave it out")
    own = translator_of(args)
    codec, (source, target) = own.codec, own.languages
    with tempfile.TemporaryDirectory(prefix="specdec-serve-bench-") as folder:
        codec.src_dict.save(f"{folder}/dict.{source}.txt")
        codec.tgt_dict.save(f"{folder}/dict.{target}.txt")
        call_once(
            "the converter", f"{WORKER}:convert", engine="ctranslate2",
            checkpoint=legible(verifiers[0], folder), data=folder, source=source, target=target,
            folder=f"{folder}/model", kind=kind,
        )  # fmt: skip
        model = Model(f"{folder}/model", kind, False, 1, {}, args.workers)
    peer: Any = PeerTranslator(own, model, args.beam, args.max_len_a, args.max_len_b)
    return Service(peer, limits, args.workers, smallest=lambda: _SMALLEST)
