"""A drafter's list of words: part of its checkpoint, checked when it is loaded."""

import pytest
import torch
from toy_drafter import ToyTask, make_drafter
from toy_translation import dictionary

from fairseq_specdec.models.word_list import WordList, names_of, tensors_of

TRANSLATIONS, FREQUENT = names_of(None)
SOURCE, TARGET = dictionary(6), dictionary(8)
EOS, PAD = TARGET.eos(), TARGET.pad()
TABLE = [[PAD, PAD]] * 4 + [[4, 5], [11, PAD], [6, 6], [7, 8], [4, 9], [5, 10]]


def tensors(**changed):
    usual = {TRANSLATIONS: torch.tensor(TABLE), FREQUENT: torch.tensor([EOS, 4])}
    return {**usual, **changed}


def find(**changed):
    return WordList.find(tensors(**changed), SOURCE, TARGET)[None]


def lists(word_list, src_tokens):
    sizes, ids = word_list.of(torch.tensor(src_tokens))
    return [each.tolist() for each in ids.split(sizes.tolist())]


def test_a_list_is_the_union_of_translations_and_frequent_words():
    assert lists(find(), [[7, EOS], [5, 6]]) == [[EOS, 4, 7, 8], [EOS, 4, 6, 11]]
    # Padding lists nothing, else a sentence's drafts depend on the sentences beside it.
    table = torch.tensor(TABLE)
    table[SOURCE.pad()] = 10
    assert lists(find(**{TRANSLATIONS: table}), [[SOURCE.pad(), 7]]) == [[EOS, 4, 7, 8]]


@pytest.mark.parametrize(
    "name, value, message",
    [
        (TRANSLATIONS, torch.tensor([[len(TARGET)]] * 10), "12, no index"),
        (FREQUENT, torch.tensor([99]), "99, no index"),
        (TRANSLATIONS, torch.zeros(10, 2), "float32 of shape [10, 2]"),
        (TRANSLATIONS, torch.zeros(10, dtype=torch.long), "not whole numbers in 2 dimensions"),
        (TRANSLATIONS, torch.zeros(10, 0, dtype=torch.long), "of shape [10, 0]"),
        (TRANSLATIONS, torch.zeros(9, 2, dtype=torch.long), "9 x 2 for a source dictionary of 10"),
        (TRANSLATIONS, torch.zeros(10, 1001, dtype=torch.long), "at most 1000 translations"),
        (FREQUENT, torch.tensor([PAD]), "names no word"),
        (FREQUENT, "the", "is missing or no tensor"),
        (TRANSLATIONS, None, "is missing or no tensor"),
    ],
)
def test_what_is_no_list_is_refused(name, value, message):
    with pytest.raises(ValueError) as error:
        find(**{name: value})
    assert str(error.value).startswith(name) and message in str(error.value)
    assert "python -m fairseq_specdec.data.shortlist" in str(error.value)


@pytest.mark.parametrize("words, dtype", [(32767, torch.int16), (32768, torch.int32)])
def test_indices_are_stored_as_small_as_they_can_be(words, dtype):
    stored = tensors_of([[words - 1]], [EOS], words)
    assert {tensor.dtype for tensor in stored.values()} == {dtype}
    assert int(stored[TRANSLATIONS]) == words - 1


@pytest.mark.parametrize("settings", [{}, {"chain_width": 8}])
def test_training_goes_on_with_and_without_a_list(settings):
    """fairseq-train loads a checkpoint into a model that it made from flags, strictly."""
    plain, listed = make_drafter(**settings), make_drafter(**settings)
    words = len(ToyTask().source_dictionary)
    rows = torch.full((words, 3), 7)
    state = {**plain.state_dict(), **tensors_of(rows, [EOS, 4], words)}
    listed.load_state_dict(dict(state))
    assert set(listed.state_dict()) == set(state) and listed.half().word_list.frequent[1] == 4
    assert sum(p.numel() for p in listed.parameters()) == sum(p.numel() for p in plain.parameters())
    again = make_drafter(**settings)
    again.load_state_dict(listed.state_dict())
    assert again.word_list.translations[20].tolist() == [7, 7, 7]
    again.load_state_dict(plain.state_dict())
    assert again.word_list is None


def of_pairs(*pairs):
    """Tensors of a checkpoint with a list for each pair: a table shifted by its place."""
    stored = {}
    for place, pair in enumerate(pairs):
        table = torch.tensor(TABLE)
        table[7] = 8 + place
        stored.update(tensors_of(table, torch.tensor([EOS]), len(TARGET), pair))
    return stored


def test_a_drafter_of_several_pairs_takes_the_list_of_its_own():
    model = make_drafter(ToyTask(6, 8), share_all_embeddings=False)
    state = {**model.state_dict(), **of_pairs("en-de", "en-pt_BR")}
    model.upgrade_state_dict(state)
    model.load_state_dict(state)
    german, brazilian, other = map(model.for_pair, ("en-de", "en-pt_BR", "de-en"))
    assert lists(german.word_list, [[7]]) == [[EOS, 8]]
    assert lists(brazilian.word_list, [[7]]) == [[EOS, 9]]
    assert other.word_list is None and model.word_list is None
    assert german.decoder is model.decoder
    assert model.state_dict().keys() == state.keys()


def test_a_broken_list_of_a_pair_is_named():
    name = "word_lists.en-de.frequent"
    for value in (torch.tensor([99]), None):
        with pytest.raises(ValueError, match=name):
            WordList.find({**of_pairs("en-de"), name: value}, SOURCE, TARGET)
