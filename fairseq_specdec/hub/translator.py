"""``SpeculativeTranslator``: three lines of Python from a checkpoint to text."""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import (
    Any,
    Callable,
    ContextManager,
    Dict,
    Iterable,
    Iterator,
    List,
    Optional,
    Tuple,
    Union,
    overload,
)

import torch

from fairseq_specdec.decoding.builder import (
    Overrides,
    build_generator,
    check_dictionaries,
    check_settings,
)
from fairseq_specdec.decoding.stats import DecodingStats
from fairseq_specdec.trace.recorder import TraceBuilder, settings_of

from . import converted_text, loading
from .batching import by_length, check_batching, check_seed, collated, encoded, listed
from .choices import Choice, choose_codec
from .described import describe
from .flags import in_python, split_flags
from .results import Piece, Translation, nothing, translation
from .streaming import Put, pieces
from .text import TextCodec


class SpeculativeTranslator:
    """Translates strings by drafting and verifying. Make one with ``from_pretrained``.

    It may be shared by threads. With a ``seed`` they take turns.

    Args:
        loaded: verifier and dictionaries.
        codec: text to tokens and back.
        generator: decodes.
        settings: the flags that matter to its strategy.
        nbest: ``--nbest``.
        batch_size, max_tokens: as for ``from_pretrained``.
        too_long: as for ``from_pretrained``.
        seed: as for ``from_pretrained``.

    Attributes:
        stats: what was decoded so far (``DecodingStats``).
    """

    def __init__(
        self,
        loaded: loading.Loaded,
        codec: TextCodec,
        generator: Any,
        settings: Dict[str, Any],
        nbest: int,
        batch_size: int,
        max_tokens: int,
        too_long: str,
        seed: Optional[int],
    ) -> None:
        self.codec = codec
        self.strategy: str = generator.strategy
        self.settings = settings
        self.nbest = nbest
        self.batch_size = batch_size
        self.max_tokens = max_tokens
        self.too_long = too_long
        self.seed = seed
        self.stats: DecodingStats = generator.stats
        self._task = loaded.task
        self._models = loaded.models
        self._generator = generator
        self._trace_builder = TraceBuilder(self.strategy, settings, *loaded.dictionaries)
        # A seed is set for the whole process: no other batch may draw in between.
        self._turn: ContextManager[Any] = contextlib.nullcontext()
        if seed is not None:
            self._turn = threading.Lock()

    @classmethod
    def from_pretrained(
        cls,
        verifier: loading.Paths,
        drafter: Any = None,
        data: Any = None,
        strategy: Optional[str] = None,
        *,
        source_lang: Optional[str] = None,
        target_lang: Optional[str] = None,
        tokenizer: Choice = "auto",
        bpe: Choice = "auto",
        bpe_codes: Optional[str] = None,
        device: Any = None,
        dtype: Any = "fp32",
        batch_size: Optional[int] = None,
        max_tokens: int = 4096,
        too_long: str = "refuse",
        seed: Optional[int] = None,
        **flags: Any,
    ) -> SpeculativeTranslator:
        """Load a verifier, and a drafter where the strategy uses one.

        Args:
            verifier: a checkpoint; several, in a list or joined by a colon, for an ensemble; a
                folder with ``verifier.pt`` (and ``drafter.pt``) in it, such as ``specdec-convert
                hf`` writes; or the name of a demo pair, ``demo_ende`` or ``demo_edit``.
            drafter: checkpoint of the drafter or the small model (``--drafter-path``).
            data: folder with the dictionaries, as fairseq-preprocess writes it (default: beside the
                checkpoint, or where it was trained).
            strategy: ``--strategy`` (default: gad where there is a drafter, given or beside the
                verifier in its folder, else greedy: the output is the verifier's own).
            source_lang, target_lang: languages, as the dictionaries are named, or by the codes of
                a converted model (default: the checkpoint's).
            tokenizer: fairseq's ``--tokenizer``: moses, space, nltk; a dictionary with its flags
                (``{"tokenizer": "moses", "moses_no_escape": True}``); None for none (default: the
                checkpoint's; where it has none, moses with subword-nmt's codes, else none).
            bpe: fairseq's ``--bpe``: subword_nmt, sentencepiece ...; a dictionary with its flags;
                None for none, for text that is split already (default: the checkpoint's; where it
                has none, the subword model beside the dictionaries or the checkpoint, by its usual
                names; a dictionary of subwords needs one).
            bpe_codes: file of the subword model: codes of subword-nmt or fastBPE, or (named
                ``*.model`` or ``*.spm``, or with ``bpe="sentencepiece"``) of sentencepiece.
            device: where to run (default: the GPU where there is one).
            dtype: fp32, fp16 or bf16.
            batch_size: most sentences decoded together (default: 16; with gad++ 1, since its output
                depends on it).
            max_tokens: most source tokens decoded together, padding included.
            too_long: what to do with a text that the verifier has no positions for: refuse it, or
                truncate its end.
            seed: makes ``sampling`` repeat itself, call by call.
            flags: every decoding flag by its name with underscores: beam (default 1, not fairseq's
                5), nbest (``Translation.alternatives``), block_size, top_beta, tau, regret_budget,
                alpha_fb, max_len_b, min_len, sampling, temperature ...

        Raises:
            TypeError: a flag that does not exist or has a value of another type.
            ValueError: a value, or a combination, that cannot be honoured.
            FileNotFoundError: a file or folder that is not there.
        """
        check_batching(1 if batch_size is None else batch_size, max_tokens, too_long)
        check_seed(seed)
        where = loading.chosen_device(device)
        number = loading.chosen_dtype(dtype, where)
        place = loading.find(verifier, drafter, data, strategy)
        if strategy is None:
            strategy = "greedy" if place.drafter is None else "gad"
        described = describe(place.verifiers, source_lang, target_lang)
        languages = (source_lang, target_lang)
        if described is not None:
            flags, languages = {**described.flags, **flags}, described.dictionaries
        settings, args = split_flags(strategy, place.drafter, flags)
        try:
            check_settings(settings)
            loaded = loading.load(place.verifiers, place.data, languages)
            check_dictionaries(strategy, *loaded.dictionaries, settings)
            if described is None:
                codec = choose_codec(loaded, place, tokenizer, bpe, bpe_codes)
            else:
                codec = converted_text.choose(described, bpe, loaded.dictionaries)
            for model in loaded.models:
                model.to(device=where, dtype=number)
            generator = _generator(loaded, args, settings)
        except ValueError as error:
            raise ValueError(in_python(str(error))) from error
        facts = settings_of(settings, args, generator)
        if batch_size is None:
            batch_size = 16 if generator.options.planned_chance is None else 1
        return cls(
            loaded, codec, generator, facts, args.nbest, batch_size, max_tokens, too_long, seed
        )

    def __reduce__(self) -> Any:
        """Refuse to be pickled, and say what to do.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            "a SpeculativeTranslator cannot be pickled (its weights are packed for this process); "
            "in other processes call from_pretrained there, in threads share this one"
        )

    def __repr__(self) -> str:
        flags = "".join(f", {name}={value!r}" for name, value in self.settings.items())
        return f"<SpeculativeTranslator {self.strategy}{flags}>"

    @property
    def generator(self) -> Any:
        """What decodes: a ``SpeculativeGenerator``."""
        return self._generator

    @property
    def languages(self) -> Tuple[str, str]:
        """Source and target language."""
        return self.codec.languages

    @property
    def device(self) -> torch.device:
        """Where the verifier is."""
        device: torch.device = next(self._models[0].parameters()).device
        return device

    @property
    def longest_source(self) -> int:
        """Most source tokens, </s> included, that the verifier has positions for."""
        limits = [model.max_positions()[0] for model in self._models]
        return int(min(limits))

    @overload  # a string is several strings too
    def translate(  # type: ignore[overload-overlap]
        self, texts: str, return_trace: bool = False
    ) -> Translation: ...

    @overload
    def translate(self, texts: Iterable[str], return_trace: bool = False) -> List[Translation]: ...

    def translate(
        self, texts: Union[str, Iterable[str]], return_trace: bool = False
    ) -> Union[Translation, List[Translation]]:
        """Translate one text, or several in batches of similar length.

        Line breaks count as spaces. A text without a visible character gives an empty one, without
        decoding. Characters that the subword model does not know become <unk>, as in fairseq
        (``Translation.unknown`` counts them).

        Args:
            texts: a string or several.
            return_trace: fill in ``Translation.trace``; its ``id`` is the text's index.

        Returns:
            A ``Translation``, or a list of them in the order of the texts.

        Raises:
            TypeError: something that is no string.
            ValueError: a text that is too long (see ``too_long``).
        """
        single = isinstance(texts, str)
        sources = [texts] if isinstance(texts, str) else listed(texts)
        rows = self.encode(sources)
        found: List[Optional[Translation]] = [
            None if row else nothing(self._trace_builder, i, sources[i], return_trace)
            for i, row in enumerate(rows)
        ]
        with self._turn, torch.no_grad(), self._seeded():
            for batch in by_length([len(row) for row in rows], self.batch_size, self.max_tokens):
                sample = self._collated([rows[i] for i in batch])
                sample["batch_size"] = self.batch_size
                hypotheses = self._generator.generate(self._models, sample, **self._first(batch))
                for i, ranked in zip(batch, hypotheses):
                    found[i] = self._result(i, sources[i], rows[i], ranked, return_trace)
        results = [result for result in found if result is not None]
        return results[0] if single else results

    def encode(self, texts: Iterable[str]) -> List[List[int]]:
        """Token ids of each text, </s> included; [] for one without a visible character.

        Raises:
            TypeError: something that is no string.
            ValueError: a text that is too long (see ``too_long``).
        """
        return encoded(self.codec, listed(texts), self.longest_source, self.too_long)

    def translate_encoded(self, rows: List[List[int]]) -> Iterator[Tuple[int, Translation]]:
        """Translate texts as one batch, and yield each with its number when it has ended.

        Abandoning the iterator ends the decoding. Until then its thread begins no other batch.

        Args:
            rows: as ``encode`` gives them, none of them empty.
        """
        with self._turn, torch.no_grad(), self._seeded(), self._open(rows) as decoding:
            for i, ranked in decoding.results():
                yield i, self._result(i, "", rows[i], ranked, False)

    def translate_stream(
        self, text: str, return_trace: bool = False
    ) -> Iterator[Union[str, Piece]]:
        """Translate one text, and yield pieces of the translation while it is decoded.

        The pieces put together are the text that ``translate`` gives. With a tokenizer, BPE or
        language whose earlier text can change with later tokens (of those in fairseq: byte BPEs,
        nltk, Czech), all of it comes in the last piece. With a beam, a piece holds what all
        hypotheses have. Decoding runs in a thread of its own; abandoning the iterator ends it.

        Args:
            text: a string.
            return_trace: yield a ``Piece`` for every iteration instead, and one at the end.

        Raises:
            TypeError, ValueError: as ``translate``; before the first piece.
        """
        if not isinstance(text, str):
            raise TypeError(f"text: expected a string, got {type(text).__name__}")
        row = self.encode([text])[0]
        return self._pieces(row, return_trace)

    def _pieces(self, row: List[int], return_trace: bool) -> Iterator[Union[str, Piece]]:
        if row:
            trace_builder = self._trace_builder if return_trace else None
            decode = functools.partial(self.decode_growing, row)
            yield from pieces(decode, self.codec, trace_builder)

    def decode_growing(self, row: List[int], put: Put, ended: Callable[[], bool]) -> None:
        """Decode one text in this thread, and tell of it while it grows.

        Args:
            row: as ``encode`` gives it, not empty.
            put: called with an iteration and the words so far; at the end with None and all words.
            ended: asked before each iteration whether to stop early.
        """
        with self._turn, torch.no_grad(), self._seeded():
            tokens: List[int] = []
            with self._open([row]) as batch:
                while batch.live and not ended():
                    batch.iterate()
                    iteration = batch.trace(0)[-1]
                    tokens += iteration.emitted
                    put(iteration, self.codec.words(tokens))
        put(None, self.codec.words(tokens))

    def _open(self, rows: List[List[int]]) -> ContextManager[Any]:
        """A batch of these texts, ready to decode."""
        sample = {**self._collated(rows), "batch_size": self.batch_size}
        first = self._first(list(range(len(rows))))
        opened: ContextManager[Any] = self._generator.batch(self._models, sample, **first)
        return opened

    def _collated(self, rows: List[List[int]]) -> Dict[str, Any]:
        return collated(rows, self._task, self.device)

    def _first(self, batch: List[int]) -> Dict[str, Any]:
        """What the outputs of a batch begin with, where the codec says."""
        first = self.codec.first
        if first is not None:
            prefix = torch.full((len(batch), 1), first, device=self.device)
            return {"prefix_tokens": prefix, "bos_token": self.codec.start}
        return {"bos_token": self.codec.start}

    @contextlib.contextmanager
    def _seeded(self) -> Iterator[None]:
        if self.seed is None:
            yield
            return
        device = self.device
        cards = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(devices=cards):
            torch.manual_seed(self.seed)
            yield

    def _result(
        self, i: int, source: str, row: List[int], ranked: List[Dict[str, Any]], traced: bool
    ) -> Translation:
        unknown = row.count(self._task.source_dictionary.unk())
        found = translation(self.codec, ranked[: self.nbest], unknown)
        if not traced:
            return found
        trace = self._trace_builder.sentence(i, row, ranked[0], source, found.text)
        return found._replace(trace=trace)


def _generator(loaded: loading.Loaded, args: Any, settings: Any) -> Any:
    """The generator that the flags describe, for models that nothing else uses."""
    return build_generator(
        loaded.models,
        *loaded.dictionaries,
        args,
        settings,
        free_unpacked=not settings.keep_weights,
        overrides=Overrides(keep_trace=True),
    )
