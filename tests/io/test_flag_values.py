"""Values of flags: a range is checked and worded from one statement, in every kind of parser."""

import argparse
import dataclasses
import math

import pytest
from fairseq.dataclass import FairseqDataclass

from fairseq_specdec.io import flag_values
from fairseq_specdec.io.flag_values import AT_LEAST_1, SHARE, Range, add_flag, check_flags, flag


@pytest.mark.parametrize(
    "values, words, within, without",
    [
        (Range(1), "1 or more", (1, 2.5, math.inf), (0, -1, math.nan)),
        (Range(0, above=True), "above 0", (1e-9, math.inf), (0, -0.0, math.nan)),
        (Range(0, below=True), "0 or more, finite", (0, 1e9), (-1, math.inf, math.nan)),
        (Range(0, 1), "from 0 to 1", (0, 0.5, 1), (-1e-9, 1.01, math.inf, math.nan)),
        (Range(0, 1, below=True), "from 0 to below 1", (0, 0.99), (1, -1, math.nan)),
        (Range(0, 1, above=True), "from above 0 to 1", (1, 0.01), (0, 1.5, math.nan)),
        (Range(2, 200, whole=True), "from 2 to 200", (2, 200), (1, 201)),
    ],
)
def test_a_range_describes_what_it_holds(values, words, within, without):
    assert str(values) == words
    assert all(each in values for each in within)
    for each in without:
        with pytest.raises(ValueError, match=f"^--rate {each}: must be {words}$"):
            flag_values.check_value("--rate", each, values)


@dataclasses.dataclass
class Settings(FairseqDataclass):
    rate: float = flag(0.5, "how often", SHARE)
    kind: str = flag("a", "which kind", ("a", "b"))
    count: int = flag(None, "how many", AT_LEAST_1, otherwise="all")
    quiet: bool = flag(False, "print nothing")


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"rate": 2.0}, "--rate 2.0: must be from 0 to 1"),
        ({"kind": "c"}, "--kind c: choose one of a, b"),
        ({"count": 0}, "--count 0: must be 1 or more"),
    ],
)
def test_flags_are_checked_by_their_fields(changes, message):
    check_flags(Settings(), Settings)
    with pytest.raises(ValueError) as caught:
        check_flags(Settings(**changes), Settings)
    assert str(caught.value) == message


def test_a_parsers_flags_are_worded_and_checked_likewise():
    parser = argparse.ArgumentParser()
    most = add_flag(parser, "--most -m", "so many", AT_LEAST_1, otherwise="all")
    assert most.help == "so many; 1 or more (default: all)" and most.type is int
    assert add_flag(parser, "--share", "80%", SHARE, 0.5).help == "80%%; from 0 to 1 (default: 0.5)"
    assert add_flag(parser, "--to", "which", ("a", "b"), "a").help == "which (default: a)"
    assert add_flag(parser, "--late", "how late", default=0.0).help == "how late (default: 0.0)"
    assert add_flag(parser, "--off", "print nothing", default=False).nargs == 0
    out = add_flag(parser, "--out", "a file", metavar="X", required=True)
    assert out.help == "a file; required"
    args = parser.parse_args(["-m", "3", "--out", "x"])
    assert (args.most, args.share, args.to, args.off) == (3, 0.5, "a", False)
    with pytest.raises(ValueError, match="^--most 0: must be 1 or more$"):
        parser.parse_args(["-m", "0"])
    with pytest.raises(SystemExit):
        parser.parse_args(["--to", "c"])
