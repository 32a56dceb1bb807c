"""What a checkpoint's settings say of the dictionaries that it was trained with."""

import contextlib
from argparse import Namespace

import pytest
from toy_drafter import dictionary_of

from fairseq_specdec.decoding.drafter_file import (
    TrainingSettings,
    check_symbols,
    trained_dictionaries,
)

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


def test_the_dictionaries_are_those_of_the_first_pair_with_its_tokens(tmp_path):
    for language, word in (("en", "house"), ("de", "Haus"), ("ro", "casa")):
        (tmp_path / f"dict.{language}.txt").write_text(f"{word} 1\n", encoding="utf-8")
    dictionaries = trained_dictionaries(state_of(data=str(tmp_path), **SIMPLE))
    symbols = {side: dictionary.symbols[4:] for side, (_, dictionary) in dictionaries.items()}
    tokens = ["__de__", "__en__", "__ro__"]
    assert symbols == {"source": ["house", *tokens], "target": ["Haus", *tokens]}
    assert not trained_dictionaries(state_of(data=str(tmp_path), lang_dict="l", **SIMPLE))
    assert not trained_dictionaries(state_of(data="relative", **SIMPLE))


@pytest.mark.parametrize(
    "symbols, message",
    [
        (["house", "__en__", "__de__", "__ro__"], "__de__ __en__ __ro__ .* has __en__ __de__ __ro"),
        (["house", "__de__", "__en__"], "__de__ __en__ __ro__ .* has __de__ __en__; decode with"),
        (["house"], "has none of them"),
        # Behind the languages there may be more, as NLLB's tags: sizes and digests judge those.
        (["house", "__de__", "__en__", "__ro__", "<TAG>"], None),
    ],
)
def test_other_languages_are_named_where_the_data_are_gone(symbols, message):
    words = dictionary_of(*symbols)
    refused = pytest.raises(ValueError, match=message) if message else contextlib.nullcontext()
    with refused:
        check_symbols("d.pt", state_of(data="gone", **SIMPLE), words, words)
