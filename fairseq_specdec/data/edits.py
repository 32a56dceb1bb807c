"""Learn which edits a correcting model makes.

``python -m fairseq_specdec.data.edits DATA --out edits.tsv`` aligns each source with its output,
counts what became of each token between its neighbours, and writes the edits that are made nearly
always. With ``--strategy iad --edits edits.tsv`` they are made in a source before it is copied, so
that a draft continues where it would have ended. DATA is best what ``specdec-distill`` made: an
edit of a reference that the model does not make is a wrong draft.
"""

from __future__ import annotations

import argparse
import collections
import difflib
import functools
import itertools
import logging
from collections import Counter as Counts
from collections.abc import Iterator, Sequence

from fairseq_specdec.errors import UsageError

from ..drafting.edit_table import Edit, write_edits
from ..io.atomic import check_new_file, replacing
from ..io.flag_values import AT_LEAST_0, AT_LEAST_1, SHARE, add_flag
from ..io.progress import bar
from .parallel import open_text, read_pairs, run_command, text_parser

logger = logging.getLogger("fairseq_specdec.data.edits")
PROGRAM = "python -m fairseq_specdec.data.edits"

Tokens = tuple[int, ...]
Place = tuple[int, ...]
"""Tokens before a token, how many they are coming first, the token and those after it."""


def get_parser() -> argparse.ArgumentParser:
    parser = text_parser(
        PROGRAM,
        "Learn from pairs of source and output which edits a correcting model makes, for "
        "--strategy iad --edits: drafts then hold them, and the output stays the same.",
        "sources and outputs in one dictionary, best what the model itself writes for text like "
        "that to correct",
    )
    add = functools.partial(add_flag, parser)
    add("--context", "tokens before and after an edit that decide on it, at most", AT_LEAST_0, 2)
    add("--share", "places of which an edit must be made, as a share", SHARE, 0.8)
    add("--least", "times that an edit must be made", AT_LEAST_1, 3)
    return parser


def aligned(source: Sequence[int], output: Sequence[int]) -> list[Tokens]:
    """What became of each token of a source, in the order of the output. Both begin with the start
    symbol, which stays; what is inserted belongs to the token before it."""
    parts: list[Tokens] = []
    matcher = difflib.SequenceMatcher(None, source[1:], output[1:], autojunk=False)
    parts.append((source[0],))
    for change, begin, end, first, last in matcher.get_opcodes():
        if change == "insert":
            parts[-1] += tuple(output[1 + first : 1 + last])
            continue
        for place in range(begin, end):  # one for one, and the last one the rest
            upto = last if place == end - 1 else min(first + 1, last)
            parts.append(tuple(output[1 + first : 1 + upto]))
            first = upto
    return parts


def places(text: Sequence[int], at: int, context: int) -> Iterator[Place]:
    """A token of a text with up to ``context`` tokens on each side, the fewest first."""
    for before, after in sorted(itertools.product(range(context + 1), repeat=2), key=sum):
        if before <= at and at + after < len(text):
            yield (before, *text[at - before : at + after + 1])


def learn(
    pairs: Sequence[tuple[Tokens, Tokens]], context: int, share: float, least: int
) -> list[Edit]:
    """The edits that are made ``least`` times or more, in more than ``share`` of their places (of
    one place more than there are: what was seen seldom is less sure). Where fewer tokens around say
    the same, more are left out.

    Args:
        pairs: sources and outputs, with start symbol and </s>.
        context: most tokens on each side.
    """
    made: dict[Place, Counts[Tokens]] = collections.defaultdict(collections.Counter)
    seen: Counts[Place] = collections.Counter()
    changed = [(source, output) for source, output in pairs if source != output]
    for source, output in bar(changed, "learning", unit="pair"):
        for at, becomes in enumerate(aligned(source[:-1], output[:-1])):
            if becomes != (source[at],):
                for place in places(source, at, context):
                    made[place][becomes] += 1
    for source, _ in bar(pairs, "counting", unit="pair"):
        for at in range(len(source) - 1):
            if (0, source[at]) in made:
                seen.update(place for place in places(source, at, context) if place in made)
    chosen: dict[Place, Edit] = {}
    for place in sorted(made, key=len):
        becomes, times = made[place].most_common(1)[0]
        found = times / (seen[place] + 1)
        if times < least or found <= share:
            continue
        before, text = place[0], place[1:]
        same = (chosen.get(shorter) for shorter in places(text, before, context))
        if not any(edit and edit.becomes == becomes for edit in same):
            chosen[place] = Edit(text[:before], text[before], text[before + 1 :], becomes, found)
    return list(chosen.values())


def main(args: argparse.Namespace, words: Sequence[str] = ()) -> list[Edit]:
    """Learn the edits and write them."""
    check_new_file(args.out, "--out", args.force)
    text = open_text(args)
    if text.source_words.symbols != text.target_words.symbols:
        raise UsageError(
            args.data,
            "source and target have two dictionaries",
            "--strategy iad copies the source and needs one (fairseq-preprocess "
            "--joined-dictionary)",
        )
    start = text.source_words.eos()
    pairs = [
        ((start, *source.tolist()), (start, *target.tolist()))
        for source, target in read_pairs(text, args.most_pairs)
    ]
    edits = learn(pairs, args.context, args.share, args.least)
    if not edits:
        raise UsageError(
            args.data,
            f"no edit is made {args.least} times in more than {args.share:g} of its places",
            "give more pairs, or lower --share or --least",
        )
    with replacing(args.out) as stream:
        write_edits(edits, text.source_words, stream)
    logger.info("%s: %d edits, from %d pairs", args.out, len(edits), len(pairs))
    return edits


def cli_main(arguments: Sequence[str] | None = None) -> None:
    run_command(PROGRAM, get_parser, main, arguments)


if __name__ == "__main__":
    cli_main()
