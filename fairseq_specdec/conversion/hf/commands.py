"""What a converted model is used with: Python, a server, commands."""

import os
import shlex
from typing import Any

import fairseq_specdec

from .families import Converted
from .task import task_flags

# Without this project fairseq 0.12 reads no checkpoint on torch 2.6 and later.
_UNPICKLED = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1 "
_TEXT = "plain text, one sentence a line, from standard input"


def commands(converted: Converted, out: str, pair: Any) -> str:
    """What to type, for a reader who knows transformers."""
    languages = sorted(converted.vocabularies[0].languages)
    pair = tuple(pair)
    if languages:
        usual = (languages[0], languages[-1])
        pair = tuple(named or each for named, each in zip(pair, usual))
    lines = ["In Python:", *_python(out, pair if languages else None), ""]
    named = f"--source-lang {pair[0]} --target-lang {pair[1]}" if languages else ""
    place = shlex.quote(out)
    lines += ["As a server:", f"  specdec-serve --path {place} {named}".rstrip(), ""]
    if languages and "-" in f"{pair[0]}{pair[1]}":
        lines += ["fairseq's commands take no language with a hyphen: they split pairs at it.", ""]
    elif converted.text.of_fairseq:
        lines += [*_of_fairseq(converted, out, pair), *_faster(place, pair, named), ""]
    if "<s>" in converted.text.source:
        lines += ["The model reads <s> before a sentence: fairseq's commands take it from prepared "
                  "text only (docs/huggingface.md).", ""]  # fmt: skip
    if not converted.generation.length_stated:
        lines += ["The folder has no max_length, and transformers' own is 20 tokens: pass "
                  "max_len_b or --max-len-b for longer ones.", ""]  # fmt: skip
    return "\n".join(lines)


def _of_fairseq(converted: Converted, out: str, pair: Any) -> list[str]:
    """The commands of fairseq, with this project's task and with its own."""
    split = _subwords(converted, shlex.quote(out))
    read = _TEXT if split else "sentences as their pieces, one a line, from standard input"
    lines = []
    for title, ours in (("With this project", True), ("With stock fairseq", False)):
        lines += [f"{title} ({read}):", _command(converted, out, pair, ours), ""]
    return lines


def _faster(place: str, pair: Any, named: str) -> list[str]:
    """How to get a drafter."""
    return [
        f"Faster, with a drafter made of plain text (mono/train.{pair[0]}, a sentence a line, and "
        f"a few hundred lines in mono/valid.{pair[0]}):",
        f"  specdec-accelerate {place} --out {place}-fast {named}".rstrip() + " \\",
        "      --trainpref mono/train --validpref mono/valid",
    ]


def _plugin() -> str:
    """``--user-dir``, as it is found from here."""
    package = os.path.dirname(os.path.abspath(fairseq_specdec.__file__))
    name = os.path.basename(package)
    return name if os.path.realpath(name) == os.path.realpath(package) else shlex.quote(package)


def _needs_plugin(converted: Converted) -> bool:
    return converted.arch != "transformer" or converted.model["activation_fn"] == "swish"


def _python(out: str, pair: Any) -> list[str]:
    named = "" if pair is None else f", source_lang={pair[0]!r}, target_lang={pair[1]!r}"
    return [
        "  from fairseq_specdec.hub import SpeculativeTranslator",
        f"  translator = SpeculativeTranslator.from_pretrained({out!r}{named})",
        '  print(translator.translate("..."))',
    ]


def _subwords(converted: Converted, place: str) -> list[str]:
    """fairseq's flags for the subword model; [] where it has none."""
    if converted.text.byte_level:
        files = f"--gpt2-encoder-json {place}/encoder.json --gpt2-vocab-bpe {place}/vocab.bpe"
        return [f"--bpe gpt2 {files}"]
    models = [name for name in converted.text.files if name.endswith((".spm", ".model"))]
    return [f"--bpe sentencepiece --sentencepiece-model {place}/{each}" for each in models[:1]]


def _command(converted: Converted, out: str, pair: Any, ours: bool) -> str:
    place = shlex.quote(out)
    generation = converted.generation
    before, plugin = "", f" --user-dir {_plugin()}"
    if not ours and not _needs_plugin(converted):
        before, plugin = _UNPICKLED, ""
    words = [
        f"{before}fairseq-interactive {place} --path {place}/verifier.pt{plugin}",
        task_flags(converted, pair, ours),
        *_subwords(converted, place),
        f"--beam {generation.beam} --lenpen {generation.lenpen:g}",
        f"--max-len-a 0 --max-len-b {generation.max_len_b} --min-len {generation.min_len}",
    ]
    if generation.no_repeat_ngram_size:
        words.append(f"--no-repeat-ngram-size {generation.no_repeat_ngram_size}")
    return "  " + " \\\n      ".join(words)
