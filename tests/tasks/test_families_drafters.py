"""Drafters of multilingual models, trained by fairseq's own task, draft for every pair."""

import argparse

import pytest
import torch
from attempts import accepted, words_of
from families_toys import pair_of, train_drafter
from in_process import command_line, one_thread, run_here

from fairseq_specdec.bench import cli as bench
from fairseq_specdec.checkpoints.reading import load_model
from fairseq_specdec.data import shortlist


@pytest.fixture(scope="module")
def drafter(languages, family, tmp_path_factory):
    """An attached drafter of the toy with language tokens on both sides."""
    return train_drafter(languages, family("m2m"), tmp_path_factory.mktemp("drafter"))


def generate(languages, model, target, task=None, **flags):
    given = {**model.languages, **pair_of(target), "batch_size": 16, "beam": 1, **flags}
    return run_here("generate", languages, task=task or model.task, path=model.path, **given)


@pytest.fixture(scope="module")
def stock(languages, family):
    """What stock fairseq says, by target language."""
    model = family("m2m")
    return {target: words_of(generate(languages, model, target)[0]) for target in ("de", "ro")}


@pytest.mark.parametrize("target, backend", [("de", "native"), ("ro", "torch")])
def test_one_drafter_serves_every_pair(languages, family, drafter, stock, target, backend):
    """It has no vocabulary tables: it uses the verifier's."""
    state = torch.load(drafter, weights_only=False)["model"]
    # fairseq's own symbols, the file's, and a token for each language
    words = 4 + len((languages / "dict.en.txt").read_text("utf-8").splitlines()) + 3
    assert not [name for name, tensor in state.items() if words in tensor.shape]
    model = family("m2m")
    out, log = generate(
        languages, model, target, task=model.task + "_specdec", strategy="gad",
        drafter_path=drafter, draft_budget=0, backend=backend,
    )  # fmt: skip
    assert words_of(out) == stock[target]
    assert accepted(log) > 1.5


@pytest.mark.parametrize(
    "strategy, languages_given, message",
    [
        ("gad", {"langs": "en,ro,de"}, "__de__ __ro__ in its dictionary, .* has __en__ __ro__"),
        ("sps", {"langs": "en,de,xx", "lang_pairs": "en-de"}, "__ro__"),
    ],
)
def test_other_languages_are_refused(
    languages, family, drafter, strategy, languages_given, message
):
    model = family("m2m")
    with pytest.raises(ValueError, match=message):
        generate(
            languages, model, "de", task=model.task + "_specdec", strategy=strategy,
            drafter_path=drafter if strategy == "gad" else model.path, **languages_given,
        )  # fmt: skip


def benched(languages, model, target, *systems, **flags):
    """specdec-bench of a pair: its results."""
    given = {"task": model.task + "_specdec", "path": model.path, "cpu": True,
             "batch_size": 4, "warmup": 0, "limit": 20, **model.languages, **pair_of(target),
             **flags}  # fmt: skip
    words = [str(languages), *command_line(**given)]
    for system in systems:
        words += ["--system", system]
    with one_thread():
        return bench.main(words, lambda text: None)


def test_a_pair_has_its_table(languages, family, drafter, stock):
    """Rows of stock's output; BLEU is of text without the languages' tokens."""
    gad = f"gad: --strategy gad --drafter-path {drafter} --draft-budget 0"
    (run,) = benched(languages, family("m2m"), "ro", gad)["runs"]
    rows = {row["system"]: row for row in run["rows"]}
    assert rows["gad"]["identical_percent"] == 100 and rows["gad"]["tok"] > 1.5
    assert rows["gad"]["bleu"] == rows["fairseq beam 1"]["bleu"] > 1
    with pytest.raises(ValueError, match="--source-lang: missing; name the languages"):
        benched(languages, family("m2m"), "de", source_lang=None)


@pytest.fixture(scope="module")
def listed(languages, drafter, tmp_path_factory):
    """The drafter with lists of two translations of each word, one list for each pair."""
    out = tmp_path_factory.mktemp("listed") / "listed.pt"
    sizes = ["--translations", "2", "--frequent", "2", "--most-pairs", "2000"]
    shortlist.cli_main([str(languages), "--drafter-path", str(drafter), "--out", str(out), *sizes])
    return out


@pytest.mark.parametrize("target", ["de", "ro"])
def test_decoding_takes_the_list_of_its_pair(languages, family, listed, stock, target):
    model = family("m2m")
    out, log = generate(
        languages, model, target, task=model.task + "_specdec", strategy="gad",
        drafter_path=listed, draft_budget=0,
    )  # fmt: skip
    assert words_of(out) == stock[target]
    assert accepted(log) > 1.4  # German with the other list: 1.3


def test_lists_are_by_pair(listed, languages, tmp_path):
    """One is made anew, the other stays."""
    state = load_model(str(listed))
    names = [f"word_lists.en-{x}.translations" for x in ("de", "ro")]
    assert state["word_list"]["pairs"] == {"en-de": 2000, "en-ro": 2000}
    tables = [state["model"][name] for name in names]
    words = 4 + len((languages / "dict.en.txt").read_text("utf-8").splitlines()) + 3
    assert all(table.shape == (words, 2) for table in tables) and not torch.equal(*tables)
    out, pair = tmp_path / "one.pt", ["-s", "en", "-t", "ro"]
    flags = ["--drafter-path", str(listed), "--out", str(out), *pair, "--most-pairs", "500"]
    shortlist.cli_main([str(languages), *flags, "--translations", "1"])
    assert [load_model(str(out))["model"][name].shape[1] for name in names] == [2, 1]


@pytest.mark.parametrize(
    "changes, words, message",
    [
        ({}, {"source_lang": "en"}, "name both for one pair"),
        ({"lang_dict": "langs.txt"}, {}, "--drafter-path d.pt: was trained with --fixed-dict"),
    ],
)
def test_what_lists_cannot_be_made_of_is_named(languages, changes, words, message):
    task = {"lang_pairs": "en-de,en-ro", "lang_tok_style": "multilingual", **changes}
    none = {"source_lang": None, "target_lang": None, "drafter_path": "d.pt"}
    args = argparse.Namespace(data=str(languages), gen_subset="train", **{**none, **words})
    with pytest.raises(ValueError, match=message):
        shortlist.open_texts(args, {"cfg": {"task": argparse.Namespace(**task)}})


def test_language_tokens_of_one_pair_are_in_its_dictionaries(languages):
    """mBART-25's drafter has no --lang-pairs, and its dictionary has the languages."""
    args = argparse.Namespace(
        data=str(languages), gen_subset="train", source_lang="en", target_lang="de"
    )
    texts = shortlist.open_texts(args, {"cfg": {"task": argparse.Namespace(langs="en,de,ro")}})
    assert list(texts) == [None]
    assert texts[None].target_words.symbols[-4:] == ["[en]", "[de]", "[ro]", "<mask>"]
