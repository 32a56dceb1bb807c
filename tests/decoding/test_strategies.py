"""What every strategy owes, lossless or not: these tests run over all of ``STRATEGIES``."""

import pytest
from pairwise import half
from toy_strategies import TOYS, decode, flags, forced, make_generator, tokens, verifying
from toy_translation import EOS, PAD, make_sample, sentences

SENTENCES = sentences(12, seed=7)
LENGTHS = [
    {"min_len": 6},
    {"min_len": 0, "max_len_b": 0},
    {"max_len_b": 3, "min_len": 3},
    {"max_len_a": 0.5, "max_len_b": 2},
]
# Under the other flags they need not say what stock says.
RELAXED = [case for case, toys in TOYS.items() if toys.settings]


@pytest.mark.parametrize("case, changes", half(RELAXED, LENGTHS))
def test_lengths_and_prefixes_are_kept(case, changes):
    args, sample = flags(**changes), make_sample(SENTENCES)
    width = sample["net_input"]["src_tokens"].size(1)
    most = min(int(args.max_len_a * width + args.max_len_b), 63)
    for output in tokens(decode(make_generator(case, args, lossless=False), sample)):
        assert args.min_len <= len(output) - 1 <= most
        assert output[-1] == EOS and EOS not in output[:-1] and PAD not in output
    if case in verifying():
        prefix = forced(len(SENTENCES))
        outputs = tokens(decode(make_generator(case, lossless=False), sample, prefix))
        for mine, wanted in zip(outputs, prefix.tolist()):
            wanted = [token for token in wanted if token != PAD]
            assert mine[: len(wanted)] == wanted


def test_a_history_is_the_trace_in_lines():
    """What ``--retain-iter-history`` prints."""
    generator = make_generator("gad++", flags(retain_iter_history=True), lossless=False)
    for one in decode(generator, make_sample(SENTENCES)):
        lines = [
            (number, part.accepted, kind, tokens)
            for number, part in enumerate(one["iterations"])
            for kind, tokens in (("draft", part.draft), ("emitted", part.emitted))
        ]
        names = ("iteration", "accepted", "kind")
        told = [(*map(line.get, names), line["tokens"].tolist()) for line in one["history"]]
        assert told == lines and len(lines) == 2 * one["steps"]
