"""What every strategy owes, lossless or not: these tests run over all of ``STRATEGIES``."""

import pytest
import torch
from pairwise import half
from toy_strategies import (
    TOYS,
    cases,
    check,
    decode,
    flags,
    forced,
    make_generator,
    stock,
    tokens,
    toys,
    verifying,
)
from toy_translation import EOS, PAD, make_sample, make_task, sentences, toy_model

from fairseq_specdec.acceptance import AcceptanceRule, judged
from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.builder import Overrides, build_generator
from fairseq_specdec.decoding.strategies import STRATEGIES, Strategy
from fairseq_specdec.drafting import Drafter, DraftSession
from fairseq_specdec.engine.state import Draft
from fairseq_specdec.trace.recorder import settings_of

SENTENCES = sentences(12, seed=7)
LENGTHS = [
    {"min_len": 6},
    {"min_len": 0, "max_len_b": 0},
    {"max_len_b": 3, "min_len": 3},
    {"max_len_a": 0.5, "max_len_b": 2},
]
# Under the other flags they need not say what stock says.
RELAXED = [case for case in cases() if toys(case).settings]


@pytest.mark.parametrize("case", cases())
def test_a_batch_gives_what_its_sentences_give_alone(case):
    """Ragged rows, and rows that leave: nothing of a neighbour shows."""
    generator = make_generator(case, lossless=False)
    together = decode(generator, make_sample(SENTENCES))
    alone = [decode(generator, make_sample([s], left=False))[0] for s in SENTENCES]
    check(together, alone)
    assert len({len(h["tokens"]) for h in together}) > 3, "no row left before the others"
    if case not in ("greedy", "none"):
        assert [h["steps"] for h in together] == [h["steps"] for h in alone]
        assert len({h["steps"] for h in together}) > 2


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


@pytest.mark.parametrize("case", verifying())
def test_steps_and_history_record_what_happened(case):
    """What ``--print-step`` and ``--retain-iter-history`` print."""
    args = flags(retain_iter_history=True, print_step=True)
    generator = make_generator(case, args, lossless=False)
    hypotheses = decode(generator, make_sample(SENTENCES))
    emitted = accepted = drafted = 0
    for hypothesis in hypotheses:
        drafts, outputs = hypothesis["history"][::2], hypothesis["history"][1::2]
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


def test_each_strategy_has_toys():
    assert cases() == [*TOYS], "add an entry to TOYS in tests/toy_strategies.py"
    assert {entry.strategy for entry in TOYS.values()} == set(STRATEGIES)


class OneTokenRule(AcceptanceRule):
    """Accepts the first draft token where it is the verifier's own choice, and no other."""

    lossless = draft_independent = True

    def accept(self, draft, scores):
        best, first = scores.best(), draft.tokens[:, :1]
        return judged(first == best[:, : first.size(1)], draft.sizes.clamp(max=1), best)


class SourceDrafter(Drafter):
    """Drafts the first tokens of the source, in every iteration."""

    def open(self, source):
        return SourceSession(source.net_input["src_tokens"][:, :2])


class SourceSession(DraftSession):
    def __init__(self, tokens):
        self.tokens = tokens

    def propose(self, rows, budget=None):
        return Draft(self.tokens, torch.full_like(rows.lengths, self.tokens.size(1)))

    def keep(self, rows, kept):
        self.tokens = self.tokens[rows]


@pytest.mark.parametrize("backend", ["torch", "auto"])
def test_a_new_rule_and_a_new_drafter_need_an_entry_alone(backend, monkeypatch):
    """Traces name its flag, every backend verifies its drafts, and the output is stock's."""
    strategy = Strategy(
        "drafts the source", lambda setup: SourceDrafter(), lambda settings: OneTokenRule(),
        stated=frozenset({"tau"}),
    )  # fmt: skip
    monkeypatch.setitem(STRATEGIES, "toy", strategy)
    models, words, args = [toy_model()], make_task().tgt_dict, flags(retain_iter_history=True)
    settings = decoding_settings(strategy="toy", backend=backend)
    generator = build_generator(
        models, words, words, args, settings, overrides=Overrides(always_draft=True)
    )
    sample = make_sample(SENTENCES)
    outputs = decode(generator, sample)
    check(outputs, stock(models, sample, args))
    assert generator.stats.drafted > generator.stats.accepted > 0
    assert {part.accepted for one in outputs for part in one["iterations"]} == {0, 1}
    assert settings_of(settings, args, generator)["tau"] == settings.tau
