"""What a translator is asked: texts in, translations out, at once or as they end."""

from __future__ import annotations

import abc
import contextlib
import functools
import threading
from typing import (
    Any,
    Callable,
    Dict,
    Generator,
    Iterable,
    Iterator,
    List,
    Optional,
    Tuple,
    Union,
    overload,
)

from tqdm import tqdm

from .batching import Prefix, by_length, check_batching, encoded, forced, listed
from .decoding import Decoding, Decodings
from .results import Piece, Translation
from .streaming import Put, pieces
from .text import TextCodec
from .threads import Threads, in_background


class Calls(abc.ABC):
    """The calls of a ``SpeculativeTranslator``, which defines what decodes them."""

    codec: TextCodec
    strategy: str
    max_tokens: int
    too_long: str
    _flags: Dict[str, Any]
    _threads: Threads

    @abc.abstractmethod
    def _open(self) -> Tuple[Decodings, Decoding]:
        """What makes decodings, and the one where a call does not choose."""

    @property
    @abc.abstractmethod
    def longest_source(self) -> int:
        """Most source tokens, </s> included, that the verifier has positions for."""

    @overload  # a string is several strings too
    def translate(
        self,
        texts: str,
        return_trace: bool = False,
        *,
        progress: bool = False,
        prefix: Prefix = None,
        batch_size: Optional[int] = None,
        strategy: Optional[str] = None,
        **flags: Any,
    ) -> Translation: ...

    @overload
    def translate(
        self,
        texts: Iterable[str],
        return_trace: bool = False,
        *,
        progress: bool = False,
        prefix: Prefix = None,
        batch_size: Optional[int] = None,
        strategy: Optional[str] = None,
        **flags: Any,
    ) -> List[Translation]: ...

    def translate(
        self,
        texts: Union[str, Iterable[str]],
        return_trace: bool = False,
        *,
        progress: bool = False,
        prefix: Prefix = None,
        batch_size: Optional[int] = None,
        strategy: Optional[str] = None,
        **flags: Any,
    ) -> Union[Translation, List[Translation]]:
        """Translate one text, or several in batches of similar length.

        Line breaks count as spaces. A text without a visible character gives an empty one, without
        decoding. Characters that the subword model does not know become <unk>, as in fairseq
        (``Translation.unknown`` counts them).

        Args:
            texts: a string or several.
            return_trace: fill in ``Translation.trace``; its ``id`` is the text's index.
            progress: show a bar of finished texts on stderr.
            prefix: words that the output begins with, in the target language: a string for one
                text, or a list with one for each text, None for none.
            batch_size: as of ``from_pretrained``.
            strategy, flags: of this call, where it differs from ``from_pretrained``: beam, nbest,
                max_len_b and every other decoding flag but those by which weights are packed
                (backend, verifier_dtype ...). Flags of the translator that another strategy does
                not use are left out.

        Returns:
            A ``Translation``, or a list of them in the order of the texts.

        Raises:
            TypeError: something that is no string; a flag that does not exist.
            ValueError: a text that is too long (see ``too_long``); a flag that cannot be honoured;
                a prefix with a word that is not in the target dictionary.
        """
        decoding = self._chosen(strategy, flags, batch_size)
        return self._all(texts, prefix, return_trace, progress, decoding, threading.Event())

    @overload
    async def translate_async(
        self,
        texts: str,
        return_trace: bool = False,
        *,
        progress: bool = False,
        prefix: Prefix = None,
        batch_size: Optional[int] = None,
        strategy: Optional[str] = None,
        **flags: Any,
    ) -> Translation: ...

    @overload
    async def translate_async(
        self,
        texts: Iterable[str],
        return_trace: bool = False,
        *,
        progress: bool = False,
        prefix: Prefix = None,
        batch_size: Optional[int] = None,
        strategy: Optional[str] = None,
        **flags: Any,
    ) -> List[Translation]: ...

    async def translate_async(
        self,
        texts: Union[str, Iterable[str]],
        return_trace: bool = False,
        *,
        progress: bool = False,
        prefix: Prefix = None,
        batch_size: Optional[int] = None,
        strategy: Optional[str] = None,
        **flags: Any,
    ) -> Union[Translation, List[Translation]]:
        """``translate`` in a thread, while the event loop goes on.

        As many calls run at once as processors leave room for (one on a GPU); others wait. Texts of
        different calls are not batched together (specdec-serve does that). After cancelling, its
        thread stops when the next text has ended.

        Args, returns and raises: as ``translate``.
        """

        def work(ended: threading.Event) -> Union[Translation, List[Translation]]:
            decoding = self._chosen(strategy, flags, batch_size)
            return self._all(texts, prefix, return_trace, progress, decoding, ended)

        self._open()
        return await self._threads.run(work)

    def translate_as_completed(
        self,
        texts: Iterable[str],
        return_trace: bool = False,
        *,
        prefix: Prefix = None,
        batch_size: Optional[int] = None,
        strategy: Optional[str] = None,
        **flags: Any,
    ) -> Iterator[Tuple[int, Translation]]:
        """Yield each text's index and translation as soon as its row has ended.

        Batches are those of ``translate``. They are decoded in a thread of their own; abandoning
        the iterator ends it.

        Args and raises: as ``translate``; before the first text.
        """
        sources = [texts] if isinstance(texts, str) else listed(texts)
        decoding = self._chosen(strategy, flags, batch_size)
        rows = self.encode(sources)
        prefixes = self._forced(prefix, len(sources), decoding)

        def produce(put: Callable[[Tuple[int, Translation]], None], ended: threading.Event) -> None:
            completed = self._completed(sources, rows, prefixes, return_trace, decoding)
            with contextlib.closing(completed):
                for result in completed:
                    if ended.is_set():
                        return
                    put(result)

        return in_background(produce, "specdec-completed")

    def _chosen(
        self, strategy: Optional[str], flags: Dict[str, Any], batch_size: Optional[int] = None
    ) -> Decoding:
        """The decoding of a call."""
        decodings, decoding = self._open()
        if flags or strategy not in (None, self.strategy):
            base = self.strategy, self._flags
            decoding = decodings.of_call(strategy or self.strategy, base, flags)
        if batch_size is None:
            return decoding
        check_batching(batch_size, self.max_tokens, self.too_long)
        return decoding.resized(batch_size)

    def _forced(self, prefix: Prefix, texts: int, decoding: Decoding) -> List[List[int]]:
        """Token ids that the output of each text begins with."""
        if prefix and not decoding.generator.options.verifies:
            raise ValueError(
                f"prefix: strategy {decoding.generator.strategy} has no verifier to score it; "
                "leave it out, or use strategy gad"
            )
        return forced(self.codec, prefix, texts)

    def _all(
        self,
        texts: Union[str, Iterable[str]],
        prefix: Prefix,
        traced: bool,
        progress: bool,
        decoding: Decoding,
        ended: threading.Event,
    ) -> Union[Translation, List[Translation]]:
        """All translations; fewer once nobody waits for them."""
        sources = [texts] if isinstance(texts, str) else listed(texts)
        by_place: Dict[int, Translation] = {}
        rows, prefixes = self.encode(sources), self._forced(prefix, len(sources), decoding)
        completed = self._completed(sources, rows, prefixes, traced, decoding)
        bar = tqdm(completed, total=len(sources), unit=" texts", disable=not progress)
        for i, result in bar:
            by_place[i] = result
            if ended.is_set():
                completed.close()
        ordered = [by_place[i] for i in sorted(by_place)]
        return ordered[0] if isinstance(texts, str) else ordered

    def _completed(
        self,
        sources: List[str],
        rows: List[List[int]],
        prefixes: List[List[int]],
        traced: bool,
        decoding: Decoding,
    ) -> Generator[Tuple[int, Translation], None, None]:
        for i, row in enumerate(rows):
            if not row:
                yield i, decoding.nothing(i, sources[i], traced)
        lengths = [len(row) for row in rows]
        for batch in by_length(lengths, decoding.batch_size, self.max_tokens):
            begun = [prefixes[i] for i in batch]
            with decoding.batch([rows[i] for i in batch], begun) as opened:
                for number, ranked in opened.results():
                    i = batch[number]
                    yield i, decoding.result(i, sources[i], rows[i], ranked, traced)

    def encode(self, texts: Iterable[str]) -> List[List[int]]:
        """Token ids of each text, </s> included; [] for one without a visible character."""
        return encoded(self.codec, listed(texts), self.longest_source, self.too_long)

    def translate_encoded(self, rows: List[List[int]]) -> Iterator[Tuple[int, Translation]]:
        """Translate texts as one batch, and yield each with its number when it has ended.

        Abandoning the iterator ends the decoding. Until then its thread begins no other batch.
        """
        decoding = self._open()[1]
        with decoding.batch(rows) as opened:
            for i, ranked in opened.results():
                yield i, decoding.result(i, "", rows[i], ranked, False)

    def decode_growing(self, row: List[int], put: Put, ended: Callable[[], bool]) -> None:
        """Decode one text in this thread, and give it to ``put`` while it grows.

        Args:
            row: as ``encode`` gives it, not empty.
            put: called with an iteration and the words so far; at the end with None and all words.
            ended: asked before each iteration whether to stop early.
        """
        self._open()[1].stream(row, put, ended)

    def translate_stream(
        self,
        text: str,
        return_trace: bool = False,
        *,
        prefix: Optional[str] = None,
        strategy: Optional[str] = None,
        **flags: Any,
    ) -> Iterator[Union[str, Piece]]:
        """Translate one text, and yield pieces of the translation while it is decoded.

        The pieces put together are the text that ``translate`` gives. With a tokenizer, BPE or
        language whose earlier text can change with later tokens (of those in fairseq: byte BPEs,
        nltk, Czech), all of it comes in the last piece. With a beam, a piece holds what all
        hypotheses have. Decoding runs in a thread of its own; abandoning the iterator ends it.

        Args:
            text: a string.
            return_trace: yield a ``Piece`` for every iteration instead, and one at the end.
            prefix, strategy, flags: as for ``translate``.

        Raises:
            TypeError, ValueError: as ``translate``; before the first piece.
        """
        if not isinstance(text, str):
            raise TypeError(f"text: expected a string, got {type(text).__name__}")
        decoding = self._chosen(strategy, flags)
        prefixes = self._forced(prefix, 1, decoding)
        return self._pieces(self.encode([text])[0], prefixes, return_trace, decoding)

    def _pieces(
        self, row: List[int], prefixes: List[List[int]], return_trace: bool, decoding: Decoding
    ) -> Iterator[Union[str, Piece]]:
        if row:
            trace_builder = decoding.trace_builder if return_trace else None
            decode = functools.partial(decoding.stream, row, prefixes=prefixes)
            yield from pieces(decode, self.codec, trace_builder)
