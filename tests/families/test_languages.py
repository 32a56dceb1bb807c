"""Languages that are missing are named."""

from argparse import Namespace

import pytest

from fairseq_specdec.families.languages import check_direction, check_languages

PAIRS = {"lang_pairs": ["en-de", "en-ro"]}
UNKNOWN = ": in none of --lang-pairs en-de,en-ro"


@pytest.mark.parametrize(
    "flags, message",
    [
        ({"langs": None}, "--langs: missing; name the languages"),
        ({"lang_pairs": None}, "--lang-pairs: missing; name the pairs"),
        ({**PAIRS, "source_lang": "en", "target_lang": "fr"}, f"--target-lang fr{UNKNOWN}"),
        ({"lang_pairs": "en-de,en-ro", "source_lang": "fr", "target_lang": "de"}, "--source-lang"),
        ({}, None),
        ({"langs": "en,de"}, None),
        ({**PAIRS, "source_lang": "de", "target_lang": "ro"}, None),
        ({**PAIRS, "source_lang": None, "target_lang": None}, None),
        ({**PAIRS, "langs": ["en", "fr"], "source_lang": "en", "target_lang": "fr"}, None),
    ],
)
def test_what_is_missing_is_named(flags, message):
    if message is None:  # the rest is fairseq's
        check_languages(Namespace(**flags))
        return
    with pytest.raises(ValueError, match=f"^{message}"):
        check_languages(Namespace(**flags))


def test_a_direction_is_needed_to_decode():
    check_direction(Namespace(source_lang=None))
    check_direction(Namespace(**PAIRS, source_lang="en", target_lang="de"))
    with pytest.raises(ValueError, match="^--target-lang: missing; name the languages"):
        check_direction(Namespace(**PAIRS, source_lang="en", target_lang=None))
