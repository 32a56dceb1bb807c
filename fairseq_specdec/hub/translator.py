"""``SpeculativeTranslator``: three lines of Python from a checkpoint to text."""

from __future__ import annotations

import functools
from typing import Any, NoReturn

import torch

from fairseq_specdec.decoding.builder import check_dictionaries

from . import converted_text, loading
from .batching import check
from .calls import Calls
from .decoding import Decodings, checked
from .described import describe
from .flags import in_python
from .measured import fastest
from .sentences import Split
from .subwords import Choice, choose_codec


class SpeculativeTranslator(Calls):
    """Translates strings by drafting and verifying. Make one with ``from_pretrained``.

    It may be shared by threads. With a ``seed`` they take turns. A ``with`` block closes it.
    """

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
        **flags: Any,
    ) -> SpeculativeTranslator:
        """Load a verifier, and a drafter where the strategy uses one.

        Args:
            verifier: a checkpoint; several, in a list or joined by a colon, for an ensemble; a
                folder with ``verifier.pt`` (and ``drafter.pt``) in it, such as ``specdec-convert
                hf`` writes, or fairseq-train's ``checkpoint_best.pt``; or the name of a demo pair,
                ``demo_ende`` or ``demo_edit``.
            drafter: checkpoint of the drafter or the small model (``--drafter-path``).
            data: folder with the dictionaries, as fairseq-preprocess writes it (default: beside the
                checkpoint, or where it was trained).
            strategy: ``--strategy`` (default: what specdec-accelerate found the fastest in a folder
                that it worked in; else gad where there is a drafter, given or beside the verifier
                in its folder, else greedy: the output is the verifier's own).
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
                truncate its end. One that is split is divided first.
            split: whether a text is split into sentences, as for ``translate`` (default: yes, since
                translating and correcting models learn from single sentences; no for BART, by its
                family or architecture, which reads documents to summarise them).
            seed: makes ``sampling`` repeat itself, call by call.
            flags: every decoding flag by its name with underscores: beam (default 1, not fairseq's
                5), nbest (``Translation.alternatives``), block_size, top_beta, tau, regret_budget,
                alpha_fb, max_len_b, min_len, sampling, temperature ...

        Raises:
            TypeError: a flag that does not exist or has a value of another type.
            ValueError: a value, or a combination, that cannot be honoured.
            FileNotFoundError: a file or folder that is not there.
        """
        check(batch_size=batch_size, max_tokens=max_tokens, too_long=too_long, split=split)
        check(seed=seed)
        where = loading.chosen_device(device)
        number = loading.chosen_dtype(dtype, where)
        find = functools.partial(loading.find, verifier, drafter, data)
        place = find(strategy)
        described = describe(place.verifiers, source_lang, target_lang)
        if described is not None:
            flags = {**described.flags, **flags}
            if strategy is None and drafter is None and place.drafter is not None:
                strategy = fastest(described.folder, place.drafter, described.languages, flags)
                place = find(strategy)
        if strategy is None:
            strategy = "greedy" if place.drafter is None else "gad"
        languages = (source_lang, target_lang)
        if described is not None:
            languages = described.dictionaries
        settings, _ = checked(strategy, place.drafter, flags)
        frees = not settings.keep_weights
        loaded = loading.load(place.verifiers, place.data, languages, decoding=frees)
        check_dictionaries(strategy, *loaded.dictionaries, settings)
        if described is None:
            codec = choose_codec(loaded, place, tokenizer, bpe, bpe_codes)
        else:
            codec = converted_text.choose(described, bpe, loaded.dictionaries)
        for model in loaded.models:
            model.to(device=where, dtype=number)
        decodings = Decodings(loaded, codec, lambda name: find(name).drafter, batch_size, seed)
        if split is None:
            family = loaded.arch if described is None else described.description["family"]
            split = not family.startswith("bart")
        return cls(decodings, strategy, place.drafter, flags, max_tokens, too_long, split)

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
