"""What a checkpoint's settings say of the dictionaries that it was trained with."""

import contextlib
from argparse import Namespace

import pytest
from toy_drafter import dictionary_of

from fairseq_specdec.decoding.drafter_file import TrainingSettings, check_languages

SIMPLE = {
    "task": "translation_multi_simple_epoch", "lang_pairs": ["en-de", "en-ro"], "langs": None,
    "lang_tok_style": "multilingual", "langtoks_specs": ["main"], "decoder_langtok": True,
}  # fmt: skip
PAIRS = {"lang_pairs": "en-ro,en-de", "encoder_langtok": None, "decoder_langtok": False}


def state_of(**settings):
    return {"cfg": {"task": Namespace(**settings)}, "model": {}}


@pytest.mark.parametrize(
    "settings, tokens",
    [
        ({"task": "translation"}, []),
        (SIMPLE, ["__de__", "__en__", "__ro__"]),
        ({**SIMPLE, "langs": ["ro", "en", "de"]}, ["__ro__", "__en__", "__de__"]),
        ({**SIMPLE, "lang_tok_style": "mbart"}, ["[de]", "[en]", "[ro]", "<mask>"]),
        (
            {**SIMPLE, "lang_pairs": "en-de", "langtoks_specs": ["main", "mono_dae"]},
            ["__de__", "__en__", "__de_dae__", "__en_dae__"],
        ),
        ({**SIMPLE, "lang_dict": "langs.txt"}, None),
        ({**SIMPLE, "fixed_dictionary": "dict.txt"}, None),
        (PAIRS, []),
        ({**PAIRS, "decoder_langtok": True}, ["__de__", "__en__", "__ro__"]),
        ({"langs": "en_XX,ro_RO"}, ["[en_XX]", "[ro_RO]", "<mask>"]),
    ],
    ids=str,
)
def test_the_tokens_that_the_task_added(settings, tokens):
    assert TrainingSettings(state_of(**settings)).tokens() == tokens


@pytest.mark.parametrize(
    "symbols, message",
    [
        (["house", "__en__", "__de__", "__ro__"], "__de__ __en__ __ro__ .* has __en__ __de__ __ro"),
        (["house", "__de__", "__en__"], "__de__ __en__ __ro__ .* has __de__ __en__; decode with"),
        (["house"], "has none of them"),
        # Behind the languages there may be more, as NLLB's tags: sizes judge those.
        (["house", "__de__", "__en__", "__ro__", "<TAG>"], None),
    ],
)
def test_other_languages_are_named(symbols, message):
    refused = pytest.raises(ValueError, match=message) if message else contextlib.nullcontext()
    with refused:
        check_languages("d.pt", state_of(**SIMPLE), dictionary_of(*symbols))
