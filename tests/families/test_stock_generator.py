"""What a task's generator decides is honoured, or refused by name."""

from argparse import Namespace

import pytest
from fairseq.search import DiverseBeamSearch, Sampling
from fairseq.sequence_generator import SequenceGenerator
from toy_translation import EOS, dictionary, toy_model

from fairseq_specdec.families.stock_generator import decided


def stock(kind=SequenceGenerator, **given):
    return kind([toy_model()], dictionary(), **given)


def test_decisions_replace_the_command_line():
    given = {
        "beam_size": 3, "max_len_a": 1.5, "max_len_b": 7, "min_len": 2, "len_penalty": 0.5,
        "unk_penalty": 1.0, "temperature": 2.0, "no_repeat_ngram_size": 3,
        "normalize_scores": False, "eos": 9, "symbols_to_strip_from_output": {5},
    }  # fmt: skip
    args, extra = decided(stock(**given), Namespace(beam=5, nbest=2, min_len=1), "a_task")
    assert vars(args) == {
        "beam": 3, "nbest": 2, "max_len_a": 1.5, "max_len_b": 7, "min_len": 2, "lenpen": 0.5,
        "unkpen": 1.0, "temperature": 2.0, "no_repeat_ngram_size": 3, "unnormalized": True,
        "sampling": False,
    }  # fmt: skip
    assert extra == {"eos": 9, "symbols_to_strip_from_output": {5, 9}}


def test_without_decisions_all_is_as_stock_has_it():
    search = Sampling(dictionary(), 4, -1.0)
    args, extra = decided(stock(search_strategy=search), Namespace(sampling_topk=4), "a_task")
    assert args.sampling and args.sampling_topk == 4
    assert (args.beam, args.no_repeat_ngram_size, args.unnormalized) == (1, 0, False)
    assert extra == {"eos": EOS, "symbols_to_strip_from_output": {EOS}}


class Another(SequenceGenerator):
    """A task's own."""


@pytest.mark.parametrize(
    "generator, named",
    [
        (lambda: stock(Another), "the class Another"),
        (lambda: stock(search_strategy=DiverseBeamSearch(dictionary(), 2, 0.5)), "the search D"),
        (lambda: stock(lm_model=toy_model()), "a language model (--lm-path)"),
        (lambda: stock(tokens_to_suppress=("w1",)), "suppressed tokens"),
        (lambda: stock(match_source_len=True), "--match-source-len"),
        (lambda: stock(max_len=9), "the limit max_len=9"),
        (lambda: stock(eos=3), "an end symbol that its dictionary does not have"),
    ],
)
def test_what_is_not_run_is_named(generator, named):
    with pytest.raises(ValueError) as refused:
        decided(generator(), Namespace(), "a_task")
    message = str(refused.value)
    assert message.startswith(f"--task a_task: builds a generator with {named}")
    assert "\n" not in message
