"""Plain text to subwords and back, at once or while the translation grows; and by which tokenizer
and BPE: as asked for, by the checkpoint's settings, or by the folders."""

import filecmp
import fnmatch
import os
import unicodedata
from argparse import Namespace
from collections.abc import Iterable
from typing import Any

from fairseq.data import Dictionary, encoders
from omegaconf import OmegaConf

from fairseq_specdec.compat.subword_files import check_codes
from fairseq_specdec.errors import UsageError
from fairseq_specdec.families.subwords import FLAGS, marked
from fairseq_specdec.io.contents import WrongFileError

from .loading import DEMOS, Loaded

Choice = str | dict[str, Any] | None
"""A name of fairseq's ``--tokenizer`` or ``--bpe``, with its flags in a dictionary; None: none."""
# Names that fairseq's hub, its recipes, Marian and this project give the files of each kind.
_CODES = ("code", "codes", "bpecodes", "bpe_codes", "codes.bpe", "*.codes")
_PIECES = ("sentencepiece*.model", "sentence.bpe.model", "spm*.model", "*.spm")
_NAMES = {"subword_nmt": _CODES, "fastbpe": _CODES, "sentencepiece": _PIECES}
# With these the text of a beginning is the beginning of the text (up to its last token).
GROWING_BPE = (None, "subword_nmt", "fastbpe", "sentencepiece")
GROWING_TOKENIZER = (None, "moses", "space")
# Its rules look at a sentence's last tokens wherever they are.
NOT_GROWING_LANGUAGES = ("cs",)

# Unicode's categories of what nobody sees: formats, controls, separators.
_UNSEEN = frozenset({"Cc", "Cf", "Zl", "Zp", "Zs"})


def is_visible(text: str) -> bool:
    """Whether a text has a visible character."""
    return any(unicodedata.category(character) not in _UNSEEN for character in text)


def visible(text: str) -> str:
    """A text as it is encoded, without lone surrogates, which are no characters; "" for one without
    a visible character."""
    return text.encode("utf-8", "replace").decode("utf-8") if is_visible(text) else ""


class TextCodec:
    """fairseq's tokenizer and BPE, as its command lines apply them.

    Args:
        tokenizer, bpe: fairseq's flags, with the choice under ``tokenizer`` and ``bpe``; {} for
            none.
        languages: source and target language, for the tokenizer.
        src_dict, tgt_dict: fairseq dictionaries.
    """

    start: int | None = None  # token id that decoding starts with; None for </s>
    first: int | None = None  # token id that every output begins with

    def __init__(
        self,
        tokenizer: dict[str, Any],
        bpe: dict[str, Any],
        languages: tuple[str, str],
        src_dict: Dictionary,
        tgt_dict: Dictionary,
    ) -> None:
        self.languages, self.src_dict, self.tgt_dict = languages, src_dict, tgt_dict
        spoken = {"source_lang": languages[0], "target_lang": languages[1], **tokenizer}
        target = spoken["target_lang"]
        self.tokenizer = built("tokenizer", spoken)
        self._target_tokenizer = built("tokenizer", {**spoken, "source_lang": target})
        self.bpe_name, self.bpe = bpe.get("bpe"), built("bpe", bpe)
        check_codes(self.bpe, [src_dict], src_dict.symbols == tgt_dict.symbols)
        self.grows = (
            self.bpe_name in GROWING_BPE
            and tokenizer.get("tokenizer") in GROWING_TOKENIZER
            and target not in NOT_GROWING_LANGUAGES
        )

    def encode(self, text: str) -> list[int]:
        """Token ids, </s> included; [] for text without a visible character."""
        ids = self._ids(text, self.tokenizer, self.src_dict)
        return [*ids, self.src_dict.eos()] if ids else []

    def prepared(self, text: str) -> str:
        """A source as fairseq's commands take it, as symbols of the dictionary, without what
        the task adds; "" for a text without a visible character."""
        return " ".join(self.src_dict.symbols[i] for i in self.encode(text)[:-1])

    def encode_target(self, text: str) -> list[int]:
        """Token ids of the beginning of an output, without </s>."""
        return self._ids(text, self._target_tokenizer, self.tgt_dict)

    def _ids(self, text: str, tokenizer: Any, dictionary: Dictionary) -> list[int]:
        text = " ".join(visible(text).split())
        if not text:
            return []
        if tokenizer is not None:
            text = tokenizer.encode(text)
        if self.bpe is not None:
            text = self.bpe.encode(text)
        return list(map(dictionary.index, text.split()))

    def words(self, tokens: list[int]) -> list[str]:
        """Tokens as strings, </s> and padding left out."""
        words, unseen = self.tgt_dict.symbols, (self.tgt_dict.eos(), self.tgt_dict.pad())
        return [words[token] for token in tokens if token not in unseen]

    def join(self, words: list[str]) -> str:
        """Plain text of tokens as ``words`` gives them."""
        text = " ".join(words)
        if self.bpe is not None:
            text = self.bpe.decode(text)
        if self.tokenizer is not None:
            text = self.tokenizer.decode(text)
        return str(text).strip()

    def certain(self, words: list[str]) -> str:
        """The beginning of the text that no word after these changes.

        Later tokens can change the text only after the last complete token but one: BPE continues a
        word, and Moses' rules attach a token, or its hyphen sign, to the one before.
        """
        if not self.grows:
            return ""
        ends = (end for end in range(len(words), 0, -1) if not self._continues(words, end))
        whole, before = next(ends, 0), next(ends, 0)
        return os.path.commonprefix([self.join(words[:n]) for n in (whole, before)])

    def _continues(self, words: list[str], end: int) -> bool:
        """Whether the word that token ``end - 1`` belongs to may continue at ``end``."""
        if self.bpe_name == "sentencepiece":
            return end == len(words) or not words[end].startswith("\u2581")
        if self.bpe_name is None:
            return False
        return words[end - 1].endswith(getattr(self.bpe, "bpe_symbol", "@@ ").strip())


def built(kind: str, flags: dict[str, Any]) -> Any | None:
    """fairseq's ``tokenizer`` or ``bpe`` of these flags; None where they choose none."""
    choice = flags.get(kind)
    if choice is None:
        return None
    registry = encoders.TOKENIZER_REGISTRY if kind == "tokenizer" else encoders.BPE_REGISTRY
    if choice not in registry:
        raise UsageError(f"--{kind} {choice!r}", f"fairseq has {', '.join(sorted(registry))}")
    file = flags.get(FLAGS.get(choice, ""))
    if file is not None and os.path.exists(file) and not os.path.isfile(file):
        what, remedy = f"{file}: is no regular file", "name the subword model's file"
        raise UsageError(f"--{kind} {choice!r}", what, remedy)
    build = encoders.build_tokenizer if kind == "tokenizer" else encoders.build_bpe
    try:
        return build(Namespace(**flags))
    except (ImportError, OSError, AttributeError, ValueError) as error:
        problem = error if isinstance(error, WrongFileError) or not file else f"{file}: {error}"
        raise UsageError(f"--{kind} {choice!r}", problem) from error


# ---- which ---------------------------------------------------------------------------------------


def choose_codec(
    loaded: Loaded, verifiers: list[str], tokenizer: Choice, bpe: Choice, bpe_codes: str | None
) -> TextCodec:
    """The codec that ``SpeculativeTranslator.from_pretrained``'s arguments ask for."""
    cfg, subwords = loaded.task.cfg, _chosen(loaded.saved, "bpe", bpe)
    if bpe_codes is not None:
        path, kind = os.fspath(bpe_codes), bpe
        if bpe == "auto":
            kind = "sentencepiece" if path.endswith((".model", ".spm")) else "subword_nmt"
        if not isinstance(kind, str) or kind not in FLAGS:
            raise UsageError("--bpe-codes", f"--bpe is {bpe!r}", "leave one of them out")
        subwords = {"bpe": kind, FLAGS[kind]: path}
    elif bpe == "auto" or FLAGS.get(subwords.get("bpe", "")) not in (None, *subwords):
        beside = (os.path.dirname(os.path.abspath(path)) for path in verifiers)
        subwords = _completed(subwords, [cfg.data, *beside], loaded)
    speaking = _chosen(loaded.saved, "tokenizer", tokenizer)
    if tokenizer == "auto" and not speaking and subwords.get("bpe") == "subword_nmt":
        speaking = {"tokenizer": "moses"}
    demo = DEMOS.get(os.path.basename(os.path.normpath(cfg.data)))
    pair = demo or (cfg.source_lang, cfg.target_lang)
    return TextCodec(speaking, subwords, pair, *loaded.dictionaries)


def _chosen(saved: Any, kind: str, choice: Choice) -> dict[str, Any]:
    """fairseq's flags for the ``tokenizer`` or ``bpe`` that was chosen or, by ``auto``, that a
    checkpoint was trained with."""
    if choice == "auto":
        # omegaconf 2.0 raises for a key that a configuration does not have
        choice = saved[kind] if saved is not None and kind in saved else None
        if choice and not isinstance(choice, str):
            plain: Any = OmegaConf.to_container(choice) if OmegaConf.is_config(choice) else choice
            given = {key: value for key, value in plain.items() if value not in (None, "???")}
            name = given.pop("_name", None)
            return {**given, kind: name} if name else {}
    if isinstance(choice, str):
        return {kind: choice}
    if choice is not None and kind not in choice:
        problem = f"give a name, or a dictionary with {kind!r} in it"
        raise UsageError(f"--{kind} {choice!r}", problem)
    return dict(choice or {})


def _completed(chosen: dict[str, Any], folders: list[str], loaded: Loaded) -> dict[str, Any]:
    """fairseq's flags for the subword model, with the file that the folders hold, if none was named
    or it has moved since training. ``chosen``: flags so far; {} for whatever is there."""
    marks = next(filter(None, (marked(words.symbols) for words in loaded.dictionaries)), None)
    kinds = [chosen["bpe"]] if chosen else [marks[0]] if marks else ["subword_nmt", "sentencepiece"]
    named = str(chosen.get(FLAGS.get(kinds[0], ""), ""))
    if kinds[0] not in FLAGS or os.path.isfile(named):
        return chosen
    files = [(kind, path) for kind in kinds for path in _files(kind, folders)]
    if len(files) == 1:
        ((kind, path),) = files
        return {**chosen, "bpe": kind, FLAGS[kind]: path}
    remedy, places = "name its file with --bpe-codes", " or ".join(map(os.path.realpath, folders))
    if files:
        problem = f"there are several subword models ({', '.join(path for _, path in files)})"
    elif chosen:
        problem = f"{kinds[0]}'s file {named} is not there, nor one in {places}"
    elif marks:
        problem = (
            f"the dictionary is of subwords ({marks[1]!r}), and no subword model is in {places}"
        )
        remedy += ", or give --bpe none for text that is split already"
    else:
        return {}
    raise UsageError("--bpe", problem, remedy)


def _files(kind: str, folders: Iterable[str]) -> list[str]:
    """Files of this kind in the folders, each content once."""
    files: list[str] = []
    for folder in dict.fromkeys(map(os.path.realpath, folders)):
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            if (
                any(fnmatch.fnmatchcase(name, each) for each in _NAMES[kind])
                and os.path.isfile(path)
                and not any(filecmp.cmp(path, other, shallow=False) for other in files)
            ):
                files.append(path)
    return files
