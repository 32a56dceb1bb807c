"""``SpeculativeTranslator``: three lines of Python from a checkpoint to text."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, NoReturn, overload

import torch
from tqdm import tqdm

from fairseq_specdec.decoding.strategies import OWN_FLAGS
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.atomic import check_new_file
from fairseq_specdec.io.flag_values import AT_LEAST_1, check_value

from . import batching, loading
from .choice import decide, facts
from .converted import choose, describe
from .decoding import Decoding, Decodings, Growing, Rows, Threads, drafter_of
from .flags import in_python, split_flags
from .results import Piece, Translation
from .sentences import SPLITS, Split
from .text import Choice, choose_codec


class SpeculativeTranslator:
    """Translates strings by drafting and verifying. Make one with ``from_pretrained``.

    It may be shared by threads. With a ``seed`` they take turns. A ``with`` block closes it.

    Attributes:
        strategy: ``--strategy``, where a call does not choose.
        settings: the flags that matter to it.
        nbest, batch_size, split: as for ``from_pretrained``.
        stats: what was decoded so far (``DecodingStats``).
    """

    def __init__(self, decodings: Decodings, max_tokens: int, too_long: str, split: Split) -> None:
        base = decodings.base
        self.codec, self.stats, self.choice = decodings.codec, decodings.stats, decodings.choice
        self.strategy = self.choice.strategy
        self.settings = base.trace_builder.settings
        self.nbest, self.batch_size = base.nbest, base.batch_size
        self.max_tokens, self.too_long, self.split = max_tokens, too_long, split
        self._held: Decodings | None = decodings
        self._threads = Threads(self.device)

    @classmethod
    @in_python()
    def from_pretrained(
        cls,
        verifier: loading.Paths,
        drafter: loading.Path | None = None,
        data: loading.Path | None = None,
        strategy: str | None = None,
        *,
        source_lang: str | None = None,
        target_lang: str | None = None,
        tokenizer: Choice = "auto",
        bpe: Choice = "auto",
        bpe_codes: str | None = None,
        device: str | torch.device | None = None,
        dtype: str | torch.dtype = "fp32",
        batch_size: int | None = None,
        max_tokens: int = 4096,
        too_long: str = "refuse",
        split: Split | None = None,
        seed: int | None = None,
        learn_vocabulary: str | None = None,
        **flags: Any,
    ) -> SpeculativeTranslator:
        """Load a verifier, and a drafter where the strategy uses one.

        Args:
            verifier: a checkpoint; several, in a list or joined by a colon, for an ensemble; a
                folder with ``verifier.pt`` (and ``drafter.pt``) in it, such as ``specdec-convert
                hf`` writes, or fairseq-train's ``checkpoint_best.pt``; or the name of a demo pair,
                ``demo_ende`` or ``demo_edit``.
            drafter: checkpoint of the drafter or the small model (``--drafter-path``).
            data: folder with the dictionaries (default: beside the checkpoint, or where it was
                trained).
            strategy: ``--strategy`` (default: what specdec-accelerate found the fastest in the
                folder; else gad where there is a drafter, given or in the verifier's folder, else
                greedy: the output is the verifier's own).
            source_lang, target_lang: languages, as the dictionaries are named, or by the codes of
                a converted model (default: the checkpoint's).
            tokenizer: fairseq's ``--tokenizer``: moses, space, nltk; a dictionary with its flags
                (``{"tokenizer": "moses", "moses_no_escape": True}``); None for none (default: the
                checkpoint's; where it has none, moses with subword-nmt's codes, else none).
            bpe: fairseq's ``--bpe``: subword_nmt, sentencepiece ...; a dictionary with its flags;
                None for text that is split already (default: the checkpoint's; where it has none,
                the subword model beside the dictionaries or the checkpoint, by its usual names).
            bpe_codes: file of the subword model: codes of subword-nmt or fastBPE, or (named
                ``*.model`` or ``*.spm``, or with ``bpe="sentencepiece"``) of sentencepiece.
            device: where to run (default: the GPU where there is one).
            dtype: fp32, fp16 or bf16.
            batch_size: most sentences decoded together (default: 16; with gad++ 1, since its output
                depends on it).
            max_tokens: most source tokens decoded together, padding included.
            too_long: ``refuse`` or ``truncate`` a text that the verifier has no positions for. One
                that is split is divided first.
            split: whether a text is split into sentences, as for ``translate`` (default: yes; no
                for BART, which reads documents to summarise them).
            seed: makes ``sampling`` repeat itself, call by call.
            learn_vocabulary: file to which ``close`` writes the tokens most used in outputs, at
                most a fifth of the dictionary; it is the ``vocabulary_list`` if it is there.
            flags: every decoding flag by its name with underscores: beam (default 1, not fairseq's
                5), nbest (``Translation.alternatives``), block_size, max_len_b, sampling ...

        Raises:
            TypeError: a flag that does not exist or has a value of another type.
            ValueError: a value, or a combination, that cannot be honoured.
            FileNotFoundError: a file or folder that is not there.
        """
        batching.check("too_long", too_long, "refuse", "truncate")
        if batch_size is not None:
            check_value("batch_size", batch_size, AT_LEAST_1)
        where = loading.chosen_device(device)
        number = loading.chosen_dtype(dtype, where)
        place = loading.find(verifier, drafter, data)
        described = describe(place.verifiers, source_lang, target_lang)
        if described is not None:
            flags = {**described.flags, **flags}
        found = described if drafter is None else None
        choice = decide(strategy, place.drafter, found, flags, where.type == "cuda")
        strategy = choice.strategy
        learns = learn_vocabulary
        if learns is not None:
            check_new_file(learns, "--learn-vocabulary")
            if strategy not in OWN_FLAGS["vocabulary_list"]:
                raise UsageError("--learn-vocabulary", f"--strategy {strategy} reads no list")
            flags = {**flags, "vocabulary_list": learns} if os.path.exists(learns) else flags
        # A drafter that was asked for is refused where the strategy uses none.
        drafts = drafter_of(strategy, place.drafter) if drafter is None else place.drafter
        settings, _ = split_flags(strategy, drafts, flags)
        languages = described.dictionaries if described else (source_lang, target_lang)
        frees = not settings.keep_weights
        loaded = loading.load(place.verifiers, place.data, languages, decoding=frees)
        if described is None:
            codec = choose_codec(loaded, place.verifiers, tokenizer, bpe, bpe_codes)
        else:
            codec = choose(described, bpe, loaded.dictionaries)
        for model in loaded.models:
            model.to(device=where, dtype=number)
        if split is None:
            family = described.description["family"] if described else loaded.arch
            split = not family.startswith("bart")
        decodings = Decodings(loaded, codec, place.drafter, choice, flags, batch_size, seed, learns)
        return cls(decodings, max_tokens, too_long, split)

    def __enter__(self) -> SpeculativeTranslator:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a SpeculativeTranslator cannot be pickled (its weights are packed for this process); "
            "in other processes call from_pretrained there, in threads share this one"
        )

    def __repr__(self) -> str:
        flags = "".join(f", {name}={value!r}" for name, value in self.settings.items())
        return f"<SpeculativeTranslator {self.strategy}{flags}>"

    def write_learnt(self) -> None:
        """Write the tokens that outputs used most to ``learn_vocabulary``, as ``close`` does."""
        if self._held is not None:
            self._held.write_learnt()

    def close(self) -> None:
        """Free the models; what is being decoded ends first. Later calls are refused."""
        self._threads.close()
        self.write_learnt()
        self._held = None

    def opened(self) -> Decodings:
        """What decodes; ``UsageError`` where the translator is closed."""
        if self._held is None:
            raise UsageError("", "this translator is closed", "load another with from_pretrained")
        return self._held

    @property
    def generator(self) -> Any:
        """What decodes where a call does not choose: a ``SpeculativeGenerator``."""
        return self.opened().base.generator

    def facts(self) -> dict[str, str]:
        """How it decodes, and why: strategy, backend, format, twin, vocabulary, threads."""
        return facts(self.generator, self.choice)

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language."""
        return self.codec.languages

    @property
    def device(self) -> torch.device:
        """Where the verifier is."""
        return self.opened().loaded.device

    @property
    def longest_source(self) -> int:
        """Most source tokens, </s> included, that the verifier has positions for."""
        limits = [model.max_positions()[0] for model in self.opened().loaded.models]
        return int(min(limits))

    @overload  # a string is several strings too
    def translate(self, texts: str, return_trace: bool = False, **choices: Any) -> Translation: ...

    @overload
    def translate(
        self, texts: Iterable[str], return_trace: bool = False, **choices: Any
    ) -> list[Translation]: ...

    def translate(
        self,
        texts: str | Iterable[str],
        return_trace: bool = False,
        *,
        progress: bool = False,
        **choices: Any,
    ) -> Translation | list[Translation]:
        """Translate one text, or several in batches of similar length.

        A text is split into sentences, which are decoded in the same batches. Line ends, blank
        lines, the markers of lists and lines without a letter are copied. The text of one sentence
        is decoded as it is, and white space around it is left out. A sentence that is too long for
        the verifier is divided after a clause or, where it has none, at a space. A text without a
        visible character gives an empty one, without decoding.

        Args:
            texts: a string or several.
            return_trace: fill in ``Translation.trace``; its ``id`` is the text's index.
            progress: show a bar of finished texts on stderr.
            split: True; False to decode each text as one, with line breaks as spaces; or
                ``nonewlines`` to split at the ends of sentences only. None for the translator's.
            on_error: what to do with a text that is too long: ``raise``, before anything is
                decoded, or ``skip`` it (``Translation.error``).
            prefix: words that the output begins with: a string for one text, or a list with one
                for each text, None for none. They are of a text's first sentence.
            draft: what the output is expected to be like, such as the translation of an earlier
                version of the text, as for ``prefix``, or as a ``Translation``, whose tokens are
                taken: drafted by ``strategy`` given, which is the default then. The output is the
                same without it.
            batch_size: most sentences decoded together, as for ``from_pretrained``.
            strategy, flags: of this call, where it differs from ``from_pretrained``: every decoding
                flag but those by which weights are packed (backend, verifier_dtype ...). Flags of
                the translator that another strategy does not use are left out.

        Returns:
            A ``Translation``, or a list of them in the order of the texts.

        Raises:
            TypeError: something that is no string; a flag that does not exist.
            ValueError: a text that is too long (see ``too_long`` and ``on_error``); a flag that
                cannot be honoured; a prefix with a word that is not in the target dictionary.
        """
        return self._translate(threading.Event(), texts, return_trace, progress, **choices)

    def _translate(
        self,
        ended: threading.Event,
        texts: str | Iterable[str],
        return_trace: bool = False,
        progress: bool = False,
        **choices: Any,
    ) -> Translation | list[Translation]:
        """As ``translate``; fewer once nobody waits for them (``ended``)."""
        sources = batching.listed(texts)
        completed = self._completed(return_trace, *self._asked(sources, **choices))
        by_place: dict[int, Translation] = {}
        bar = tqdm(completed, total=len(sources), unit=" texts") if progress else completed
        for i, result in bar:
            by_place[i] = result
            if ended.is_set():
                completed.close()
        ordered = [by_place[i] for i in sorted(by_place)]
        return ordered[0] if isinstance(texts, str) else ordered

    @overload
    async def translate_async(
        self, texts: str, return_trace: bool = False, **choices: Any
    ) -> Translation: ...

    @overload
    async def translate_async(
        self, texts: Iterable[str], return_trace: bool = False, **choices: Any
    ) -> list[Translation]: ...

    async def translate_async(
        self, texts: str | Iterable[str], return_trace: bool = False, **choices: Any
    ) -> Translation | list[Translation]:
        """``translate`` in a thread, while the event loop runs.

        As many calls run at once as processors leave room for (one on a GPU); others wait. Texts of
        different calls are not batched together (specdec-serve does that). After cancelling, its
        thread stops when the next text has ended.

        Args, returns and raises: as ``translate``.
        """
        self.opened()
        ended = threading.Event()
        call = functools.partial(self._translate, ended, texts, return_trace, **choices)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads.pool, call)
        finally:
            ended.set()

    def translate_as_completed(
        self, texts: Iterable[str], return_trace: bool = False, **choices: Any
    ) -> Iterator[tuple[int, Translation]]:
        """Yield each text's index and translation as soon as its row has ended.

        Batches are those of ``translate``. They are decoded in a thread of their own; abandoning
        the iterator ends it.

        Args and raises: as ``translate``; before the first text.
        """
        completed = self._completed(return_trace, *self._asked(batching.listed(texts), **choices))
        return self._threads.in_background(completed)

    def _asked(
        self,
        sources: list[str],
        split: Split | None = None,
        on_error: str = "raise",
        prefix: batching.Prefix = None,
        draft: batching.Draft = None,
        batch_size: int | None = None,
        strategy: str | None = None,
        **flags: Any,
    ) -> tuple[list[batching.Parts], Decoding]:
        """The sentences of each text, what the first one's output begins with and what theirs are
        expected to be like, and how the call decodes them."""
        strategy = strategy or ("given" if draft else None)
        if draft and strategy != "given":
            problem = f"strategy {strategy} does not read it"
            raise UsageError("draft", problem, "leave one of them out, or use strategy given")
        decoding = self.opened().of_call(strategy, flags)
        if batch_size is not None:
            check_value("batch_size", batch_size, AT_LEAST_1)
            decoding = decoding._replace(batch_size=batch_size)
        if prefix and not decoding.generator.options.verifies:
            problem = f"strategy {decoding.generator.strategy} has no verifier to score it"
            raise UsageError("prefix", problem, "leave it out, or use strategy gad")
        prefixes = batching.forced(self.codec, prefix, len(sources))
        read = self.encode_sentences(sources, split, on_error, draft)
        return [parts._replace(prefix=each) for parts, each in zip(read, prefixes)], decoding

    def _completed(
        self, traced: bool, read: list[batching.Parts], decoding: Decoding
    ) -> Generator[tuple[int, Translation], None, None]:
        """Each text's index and translation when its last sentence has ended."""
        found: list[list[Any]] = [[None] * len(parts.rows) for parts in read]
        places = [(i, j) for i, parts in enumerate(read) for j in range(len(parts.rows))]
        rows = [read[i].rows[j] for i, j in places]

        def ended(n: int, ranked: list[Any], how: Decoding) -> Iterator[tuple[int, Translation]]:
            i, j = places[n]
            found[i][j] = how.result(i, read[i].sentences[j], rows[n], ranked, traced)
            if all(found[i]):
                yield i, batching.joined(read[i], found[i])

        for i, parts in enumerate(read):
            if not parts.rows:
                yield i, batching.joined(parts, [])
        for n, row in enumerate(rows):
            if not row:
                yield from ended(n, [], decoding)
        for batch in batching.by_length(list(map(len, rows)), decoding.batch_size, self.max_tokens):
            prefixes = [() if places[n][1] else read[places[n][0]].prefix for n in batch]
            drafts = [read[places[n][0]].drafts[places[n][1]] for n in batch]
            how = decoding.of_rows(len(batch))
            with how.batch([rows[n] for n in batch], prefixes, drafts) as opened:
                for number, ranked in opened.results():
                    yield from ended(batch[number], ranked, how)

    def encode(self, texts: Iterable[str]) -> list[list[int]]:
        """Token ids of each text as one, </s> included; [] for one without a visible character."""
        return [parts.rows[0] for parts in self.encode_sentences(texts, split=False)]

    def encode_sentences(
        self, texts: Iterable[str], split: Split | None = None, on_error: str = "raise",
        draft: batching.Draft = None,
    ) -> list[batching.Parts]:  # fmt: skip
        """The sentences of each text, what is copied around them, and their drafts. ``split``,
        ``on_error``, ``draft``: as for ``translate``."""
        split = self.split if split is None else split
        batching.check("split", split, *SPLITS)
        batching.check("on_error", on_error, "raise", "skip")
        found: list[batching.Parts] = []
        sources, limit = batching.listed(texts), self.longest_source
        for i, (text, near) in enumerate(
            zip(sources, batching.one_each("draft", draft, len(sources)))
        ):
            parts = batching.parts_of(self.codec, text, limit, split)
            rows = parts.rows
            if self.too_long == "truncate":
                rows[:] = [r if len(r) <= limit else [*r[: limit - 1], r[-1]] for r in rows]
            longest = max(map(len, rows), default=0)
            if longest > limit:
                where = " without a space" if split else ""
                error = (
                    f"text {i} has {longest} tokens{where}, and the verifier reads {limit}; split "
                    'it, pass on_error="skip", or too_long="truncate" to from_pretrained'
                )
                if on_error == "raise":
                    raise UsageError("", error)
                parts = batching.Parts([""], [], [], error)
            expected = batching.drafts_of(self.codec, near, len(parts.rows), split)
            found.append(parts._replace(drafts=expected))
        return found

    def translate_encoded(
        self, rows: Sequence[list[int]], drafts: Rows = ()
    ) -> Iterator[tuple[int, Translation]]:
        """Translate sentences as one batch, and yield each with its number when it has ended.
        ``drafts``: token ids that each output is expected to be like, as ``encode_sentences`` gives
        them.

        Abandoning the iterator ends the decoding. Until then its thread begins no other batch.
        """
        decoding = self.opened().of_call("given" if any(drafts) else None, {}).of_rows(len(rows))
        with decoding.batch(rows, (), drafts) as opened:
            for i, ranked in opened.results():
                yield i, decoding.result(i, "", rows[i], ranked, False)

    def grow(self, row: list[int], draft: Sequence[int] = ()) -> Growing:
        """Decode one sentence in this thread: yields each iteration with the text that it makes
        certain, then None with the rest. ``row``, ``draft``: as ``translate_encoded``, not empty
        and one of each."""
        return self.opened().of_call("given" if draft else None, {}).grow(row, (), draft)

    def translate_stream(
        self, text: str, return_trace: bool = False, **choices: Any
    ) -> Iterator[str | Piece]:
        """Translate one text, and yield pieces of the translation while it is decoded.

        The pieces put together are the text that ``translate`` gives. Sentences are decoded one
        after another; what is copied between them is a piece. With a tokenizer, BPE or
        language whose earlier text can change with later tokens (of those in fairseq: byte BPEs,
        nltk, Czech), all of it comes in the last piece. With a beam, a piece holds what all
        hypotheses have. Decoding runs in a thread of its own; abandoning the iterator ends it.

        Args:
            text: a string.
            return_trace: yield a ``Piece`` for every iteration instead, and one at the end of each
                sentence.
            choices: split, prefix, draft, strategy and flags as for ``translate``.

        Raises:
            TypeError, ValueError: as ``translate``; before the first piece.
        """
        (parts,), decoding = self._asked(batching.listed([text]), **choices)
        return self._pieces(parts, return_trace, decoding)

    def _pieces(
        self, parts: batching.Parts, traced: bool, decoding: Decoding
    ) -> Iterator[str | Piece]:
        prefix = parts.prefix
        for copied, row, draft in zip(parts.copied, [*parts.rows, []], [*parts.drafts, []]):
            if copied:
                yield Piece(copied, None) if traced else copied
            if not row:
                continue
            grown = self._threads.in_background(decoding.grow(row, prefix, draft))
            prefix = ()
            with contextlib.closing(grown):
                for iteration, text in grown:
                    if traced:
                        part = iteration and decoding.trace_builder.iteration(iteration)
                        yield Piece(text, part)
                    elif text:
                        yield text
