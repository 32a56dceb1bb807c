"""What every strategy owes, lossless or not: these tests run over all of ``STRATEGIES``."""

import pytest
import torch
from pairwise import half
from toy_strategies import cases, decode, flags, forced, make_generator, tokens, toys, verifying
from toy_translation import EOS, PAD, make_sample, sentences

SENTENCES = sentences(12, seed=7)
LENGTHS = [
    {"min_len": 6},
    {"min_len": 0, "max_len_b": 0},
    {"max_len_b": 3, "min_len": 3},
    {"max_len_a": 0.5, "max_len_b": 2},
]
# Under the other flags they need not say what stock says.
RELAXED = [case for case in cases() if toys(case).settings]


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


@pytest.mark.parametrize("case", ["greedy", "iad", "gad++", "sps", "blockwise", "bild"])
def test_steps_and_history_record_what_happened(case):
    """What ``--print-step`` and ``--retain-iter-history`` print."""
    args = flags(retain_iter_history=True, print_step=True)
    generator = make_generator(case, args, lossless=False)
    hypotheses = decode(generator, make_sample(SENTENCES))
    emitted = accepted = drafted = 0
    for hypothesis in hypotheses:
        drafts, outputs = hypothesis["history"][::2], hypothesis["history"][1::2]
        named = [(line["iteration"], line["kind"]) for line in hypothesis["history"]]
        assert named == [(i, kind) for i in range(len(drafts)) for kind in ("draft", "emitted")]
        assert hypothesis["steps"] == len(drafts) == len(outputs)
        assert torch.cat([o["tokens"] for o in outputs]).tolist() == hypothesis["tokens"].tolist()
        for draft, output in zip(drafts, outputs):
            kept = draft["accepted"]
            assert output["tokens"][:kept].tolist() == draft["tokens"][:kept].tolist()
            # The bonus token follows, but for a sentence that ended within its draft.
            assert len(output["tokens"]) == kept + (output["tokens"][kept - 1] != EOS or kept == 0)
            emitted += len(output["tokens"])
            accepted += kept
            drafted += len(draft["tokens"])
    stats = generator.stats
    assert (stats.emitted, stats.accepted, stats.drafted) == (emitted, accepted, drafted)
    assert stats.iterations == sum(h["steps"] for h in hypotheses)
