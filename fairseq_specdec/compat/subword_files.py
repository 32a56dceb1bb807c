"""Files of subword models and dictionaries are read as they were meant, or refused by name."""

import io
from importlib.util import find_spec
from typing import Any

from fairseq import file_utils
from fairseq.file_io import PathManager

from fairseq_specdec.io.contents import WrongFileError, check_content

from .patch import fixes

# The codes that split a dictionary's text make all its subwords of several characters. Codes of
# other models made at most 63% (11 pairs of codes and dictionaries).
_OWN = 0.9
# A dictionary of two languages whose codes were learned apart: either is true of each codes file.
_HALF, _KNOWN = 0.5, 0.75
_FEWEST = 20  # subwords that are judged by


@fixes("fairseq.data.Dictionary.add_from_file")
def read_subword_files(original: Any, words: Any, file: Any) -> Any:
    """Read codes and dictionaries as UTF-8 with or without a byte order mark; refuse what is none.

    Fault: a byte order mark becomes part of the first merge or word; a Git LFS pointer or a
    dictionary is taken for codes, whose columns are two as well; fastBPE's codes, of three columns,
    end the program; of a damaged file sentencepiece raises RuntimeError. Versions: all.
    """
    if not isinstance(file, str):
        return original(words, file)
    path = PathManager.get_local_path(file)
    check_content(path, "a dictionary")
    try:
        with open(path, encoding="utf-8-sig") as stream:
            return original(words, stream)
    except UnicodeError:
        return original(words, file)  # names the file


@fixes("fairseq.data.encoders.subword_nmt_bpe.SubwordNMTBPE.__init__")
def _subword_nmt(original: Any, made: Any, cfg: Any) -> None:
    if cfg.bpe_codes is None or find_spec("subword_nmt") is None:
        original(made, cfg)  # says what is missing
    from subword_nmt.apply_bpe import BPE

    path = file_utils.cached_path(cfg.bpe_codes)
    check_content(path, "BPE codes")
    try:
        with open(path, encoding="utf-8-sig") as stream:
            text = stream.read()
    except UnicodeDecodeError as error:
        raise WrongFileError(path, "is no text in UTF-8, as BPE codes are") from error
    made.bpe = BPE(io.StringIO(_merges(path, text)), separator=cfg.bpe_separator)
    made.bpe_symbol = cfg.bpe_separator + " "
    made.codes_file, made.codes_end = path, text.endswith("\n")


def _merges(path: str, text: str) -> str:
    """Codes as subword-nmt writes them. fastBPE's have counts, and ends of words as version 0.2."""
    lines = text.rstrip("\n").split("\n")
    header = lines[:1] if text.startswith("#version:") else []
    rows = [line.strip("\r ").split(" ") for line in lines[len(header) :]] or [[""]]
    widths = {len(row) for row in rows}
    if not header and widths in ({2}, {3}) and all(row[-1].isdigit() for row in rows):
        if widths == {2}:
            raise WrongFileError(path, "is a dictionary, not BPE codes", "name the codes")
        header, rows = ["#version: 0.2"], [row[:2] for row in rows]
    odd = [number for number, row in enumerate(rows, len(header) + 1) if len(row) != 2]
    if odd:
        message = f"line {odd[0]} does not hold exactly two subword units; name BPE codes"
        raise WrongFileError(path, f"{message}, or copy them again")
    return "\n".join([*header, *map(" ".join, rows)]) + "\n"


@fixes("fairseq.data.encoders.fastbpe.fastBPE.__init__")
def _fastbpe(original: Any, made: Any, cfg: Any) -> None:
    check_content(cfg.bpe_codes or "", "BPE codes")
    original(made, cfg)


@fixes("fairseq.data.encoders.sentencepiece_bpe.SentencepieceBPE.__init__")
def _sentencepiece(original: Any, made: Any, cfg: Any) -> None:
    path = cfg.sentencepiece_model
    check_content(path, "a sentencepiece model")
    try:
        original(made, cfg)
    except RuntimeError as error:
        message = f"is no sentencepiece model ({str(error)[:200]}); copy it again"
        raise WrongFileError(path, message) from error


def check_codes(bpe: Any, dictionaries: list[Any], joined: bool) -> None:
    """Refuse codes of subword-nmt that did not split the text of any of these dictionaries. Raises
    WrongFileError: names the codes' file. ``bpe``: fairseq's object; any other kind, and None, is
    accepted, as is a dictionary of few subwords. ``joined``: the dictionaries are of both
    languages, whose codes may have been learned apart.
    """
    path = getattr(bpe, "codes_file", None)
    if path is None:
        return
    mark, merges = bpe.bpe.separator, [first + second for first, second in bpe.bpe.bpe_codes]
    made = {each[:-4] if each.endswith("</w>") else each + mark for each in merges}
    shares = []
    for words in dictionaries:
        symbols = set(words.symbols)
        parts = [each for each in symbols if each.endswith(mark) and len(each) > len(mark) + 1]
        own = len(made.intersection(parts))
        apart = own >= _HALF * len(parts) or len(made & symbols) >= _KNOWN * len(made)
        sound = own >= _OWN * len(parts) or (joined and bpe.codes_end and apart)
        if sound or len(parts) < _FEWEST:
            return
        shares.append(f"{own} of {len(parts)}")
    cut = "" if bpe.codes_end else "; or its end is missing: copy it again"
    raise WrongFileError(
        path,
        f"is of another model, its merges make {' and '.join(shares)} subwords of the dictionary",
        f"name the codes that split the text of the model's training{cut}",
    )
