"""A folder that ``specdec-convert hf`` wrote as DATA: its flags, and plain text in place of a
split."""

import argparse
import os

from fairseq_specdec.errors import UsageError

from ..checkpoints.content import read_state
from ..checkpoints.reading import weights_mapped
from ..commands.words import words_of
from ..families.own_flags import task_of
from ..hub.command_line import described
from ..hub.converted_text import codec_of
from ..hub.described import VERIFIER, Described


def _described(args: argparse.Namespace) -> Described:
    return described(os.path.join(args.data, VERIFIER), args.source_lang, args.target_lang)


def flags_of(args: argparse.Namespace) -> list[str]:
    """Verifier, task, languages and settings of decoding, as flags. Raises ValueError: a language
    that the model lacks, or that nobody names."""
    description, path = _described(args), os.path.join(args.data, VERIFIER)
    with weights_mapped():
        task, _ = task_of(read_state("DATA", path), None, "-".join(description.languages))
    words = ["--path", path, *task, "--source-lang", description.languages[0]]
    return [*words, "--target-lang", description.languages[1], *words_of(description.command_flags)]


def sources(args: argparse.Namespace) -> list[str]:
    """The sentences of --text, split as fairseq's commands take them; empty lines are left out."""
    codec = codec_of(_described(args))
    with open(args.text, encoding="utf-8", errors="replace") as lines:
        texts = [prepared for prepared in map(codec.prepared, lines) if prepared]
    if not texts:
        raise UsageError(f"--text {args.text}", "holds no text", "give one sentence a line")
    return texts
