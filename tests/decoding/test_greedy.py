"""The loop's book-keeping: what an iteration adds, counts, cuts, traces, and who leaves."""

import copy
import dataclasses
from collections import Counter

import pytest
import torch
from scripted_drafter import ScriptedDrafter, ScriptedSession
from toy_hypotheses import chain_layout
from toy_strategies import flags, stock, tokens
from toy_translation import (
    EOS,
    PAD,
    WORDS,
    make_sample,
    make_task,
    sentences,
    toy_attached_drafter,
    toy_drafter,
    toy_model,
)

from fairseq_specdec.acceptance import ExactRule
from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.builder import Overrides, build_generator
from fairseq_specdec.decoding.greedy import emitted_sizes
from fairseq_specdec.decoding.iteration import Iteration
from fairseq_specdec.decoding.pace import AcceptanceHistory, DraftBudget, FewRejections, Planner
from fairseq_specdec.drafting import DraftOptions, NarBlockDrafter
from fairseq_specdec.engine.native.library import load
from fairseq_specdec.engine.transformer import Verifier

SENTENCES = sentences(8, seed=7)
LAYERS = (1, 2)
BACKENDS = ["torch"] + ["native"] * (load() is not None)


@pytest.fixture(scope="module")
def expected():
    return tokens(stock([toy_model()], make_sample(SENTENCES), flags()))


def make(
    drafter=None, args=None, always_draft=True, keep_trace=True, backend="torch", rule=None,
    model=None, planning=None,
):  # fmt: skip
    words = make_task().tgt_dict
    return build_generator(
        [model or toy_model()], words, words, args or flags(),
        decoding_settings(strategy="greedy", backend=backend),
        overrides=Overrides(
            drafter, rule, always_draft=always_draft, keep_trace=keep_trace, planning=planning
        ),
    )  # fmt: skip


def block_drafter(model):
    return NarBlockDrafter(copy.deepcopy(model), DraftOptions(4, PAD, EOS))


def decode(generator, prefix=None, chosen=SENTENCES):
    ranked = generator.generate(generator.models, make_sample(chosen), prefix_tokens=prefix)
    return [hypotheses[0] for hypotheses in ranked]


def figures(stats):
    """The counters, without times."""
    return {name: value for name, value in vars(stats).items() if type(value) is int}


def judged(part, output):
    """(draft tokens that were compared, accepted ones): up to the first wrong one, or the end."""
    compared = min(len(part.draft), part.accepted + 1, len(output) - part.position)
    return compared, part.accepted


def untimed(trace):
    return [dataclasses.replace(one, ms=0, drafter_ms=0, verifier_ms=0) for one in trace]


def check_trace(parts, output, live, longest):
    """The iterations of one sentence, whose rounds had so many ``live`` rows and took ``longest``
    seconds at most."""
    position = 0
    for number, part in enumerate(parts):
        assert part.position == position and part.rows == live[number]
        right = 0
        for drafted, true in zip(part.draft, output[position:]):
            if drafted != true:
                break
            right += 1
        assert part.accepted == right
        assert part.emitted == output[position : position + len(part.emitted)]
        # The verifier's choices, of which the last one is the bonus token.
        assert part.choices == part.emitted
        assert len(part.emitted) == min(right + 1, len(output) - position)
        whole, drafting, verifying = part.ms, part.drafter_ms, part.verifier_ms
        assert drafting >= 0 and verifying > 0 and whole >= 0.99 * (drafting + verifying)
        assert whole <= 1000 * longest
        position += len(part.emitted)
    assert position == len(output)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "kind", ["perfect", "noisy", "wrong", "sometimes", "empty", "junk behind", "past the end"]
)
def test_counts_and_traces_are_of_what_was_done(kind, backend, expected):
    generator = make(ScriptedDrafter(expected, kind, WORDS, 3), backend=backend)
    outputs = decode(generator)
    assert tokens(outputs) == expected
    rounds = [one["iterations"] for one in outputs]
    longest = max(map(len, rounds))
    live = [sum(len(parts) > number for parts in rounds) for number in range(longest)]
    for one, output in zip(outputs, expected):
        assert one["steps"] == len(one["iterations"])
        check_trace(one["iterations"], output, live, generator.stats.total_seconds)
        # Callers may write to them.
        assert not one["tokens"].is_inference() and not one["positional_scores"].is_inference()
    parts = [part for some in rounds for part in some]
    drafted = sum(len(part.draft) for part in parts)
    assert figures(generator.stats) == {
        "sentences": len(SENTENCES),
        "iterations": len(parts),
        "emitted": sum(map(len, expected)),
        "accepted": sum(part.accepted for part in parts),
        "drafted": drafted,
        "scored": drafted + len(parts),
        "undrafted": sum(not part.draft for part in parts),
        "draft_steps": 0,
        "windows": 0,
        "unverified": 0,
        "rollbacks": sum(part.accepted < min(len(part.draft), len(part.emitted)) for part in parts),
    }
    assert generator.stats.judged == Counter(
        judged(part, output) for one, output in zip(outputs, expected) for part in one["iterations"]
    )
    assert (drafted > 0) == (kind != "empty")
    assert len(set(live)) == 1 if kind == "past the end" else len(set(live)) > 1
    drafter = ScriptedDrafter(expected, kind, WORDS, 3)
    untraced = make(drafter, keep_trace=False, backend=backend)
    again = decode(untraced)
    assert tokens(again) == expected and figures(untraced.stats) == figures(generator.stats)
    assert [one["steps"] for one in again] == [one["steps"] for one in outputs]
    assert all(len(one["iterations"]) == 0 for one in again)
    assert untraced.stats.total_seconds > 0
    assert untraced.stats.stopwatch.seconds["verifier"] > 0


def never_right():
    """A drafter that finds the least likely words likeliest."""
    model = copy.deepcopy(toy_drafter())
    projection = model.decoder.output_projection
    projection.weight = torch.nn.Parameter(-projection.weight.detach())
    return model


@pytest.mark.skipif(load() is None, reason="no native library here")
@pytest.mark.parametrize("always_draft", [True, False])
@pytest.mark.parametrize(
    "drafter, pauses",
    [(toy_drafter, False), (never_right, True), (toy_attached_drafter, False)],
    ids=["good", "bad", "attached"],
)
def test_both_turns_in_one_call_are_recorded_one_by_one(drafter, pauses, always_draft, expected):
    # A long output has time for pauses.
    chosen = max(range(len(SENTENCES)), key=lambda i: len(expected[i])) if pauses else 1

    def run(backend, keep_trace=True):
        generator = make(
            block_drafter(drafter()), None, always_draft, keep_trace, backend,
            planning=Planner(4, column=0.3, share=0.3, measured=False),
        )  # fmt: skip
        return decode(generator, chosen=[SENTENCES[chosen]]), generator.stats

    (output,), stats = run("native")
    (other,), wanted = run("torch")
    assert output["tokens"].tolist() == other["tokens"].tolist() == expected[chosen]
    assert figures(stats) == figures(run("native", False)[1])
    if always_draft or not pauses:  # within a call of the library there is no pause
        assert figures(stats) == figures(wanted) and stats.judged == wanted.judged
        assert untimed(output["iterations"]) == untimed(other["iterations"])
    assert (wanted.undrafted > 0) == (pauses and not always_draft)
    for part in output["iterations"]:
        whole, drafting, verifying = part.ms, part.drafter_ms, part.verifier_ms
        assert verifying > 0 and drafting >= 0
        # Where nothing is drafted, the turns are taken one by one, with a clock around both.
        joined = whole == pytest.approx(drafting + verifying, abs=2e-4)
        assert joined or (pauses and not always_draft)
    spent = stats.stopwatch.seconds
    assert spent["drafter"] > 0 and spent["verifier"] > 0
    assert sum(spent.values()) < stats.total_seconds


@pytest.mark.parametrize("backend", BACKENDS)
def test_output_may_begin_after_another_symbol(backend, expected):
    sample, symbol = make_sample(SENTENCES), 9
    fairseqs = make_task().build_generator([toy_model()], flags())
    wanted = [h[0] for h in fairseqs.generate([toy_model()], sample, bos_token=symbol)]
    generator = make(ScriptedDrafter(expected, "noisy", WORDS, 3), backend=backend)
    outputs = generator.generate(generator.models, sample, bos_token=symbol)
    assert [h["tokens"].tolist() for (h,) in outputs] == tokens(wanted) != expected


class Noted(ScriptedDrafter):
    """Notes the budgets that it is given."""

    def open(self, source):
        session = ScriptedSession(self, len(source.net_input["src_tokens"]), source.max_len)
        propose, self.budgets = session.propose, []

        def noted(rows, budget=None):
            self.budgets.append(budget)
            return propose(rows, budget)

        session.propose = noted
        return session


@pytest.mark.parametrize("kind, size", [("noisy", 4), ("wrong", 4), ("wrong", 1)])
def test_drafts_keep_to_the_budget_which_learns_from_them(kind, size, expected):
    drafter = Noted(expected, kind, WORDS, size)
    planning = FewRejections(18)
    outputs = decode(make(drafter, always_draft=False, backend="torch", planning=planning))
    assert tokens(outputs) == expected
    rounds = [one["iterations"] for one in outputs]
    budget, sizes = DraftBudget(planning, AcceptanceHistory(drafter.first_chance)), []
    for number in range(max(map(len, rounds))):
        parts = [some[number] for some in rounds if len(some) > number]
        sizes.append(budget.plan(len(parts)).size)
        if sizes[-1] is not None:
            assert all(len(part.draft) <= sizes[-1] for part in parts)
        columns = [
            (len(part.emitted), part.emitted[-1] == EOS, part.accepted, 0, len(part.draft))
            for part in parts
        ]
        budget.learn(Iteration(*zip(*columns)))
    assert drafter.budgets == sizes and len(set(sizes)) > 1


PREFIX = torch.tensor([[5, 6, PAD], [7, PAD, PAD], [PAD, PAD, PAD], [8, 9, 10]])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_trace_begins_with_the_prefix_which_no_figure_counts_as_drafted(backend):
    chosen = SENTENCES[:4]
    expected = tokens(stock([toy_model()], make_sample(chosen), flags(), PREFIX))
    generator = make(ScriptedDrafter(expected, "noisy", WORDS, 3), backend=backend)
    outputs, drafts = decode(generator, PREFIX, chosen), []
    assert tokens(outputs) == expected
    for one, wanted in zip(outputs, PREFIX.tolist()):
        first, *others = one["iterations"]
        wanted = [token for token in wanted if token != PAD]
        assert first.draft == wanted and first.accepted == len(wanted)
        assert first.choices == one["tokens"].tolist()[: len(wanted) + 1]
        emitted = [token for part in one["iterations"] for token in part.emitted]
        assert emitted == one["tokens"].tolist()
        drafts += [(len(part.draft), part.accepted) for part in others]
    stats = generator.stats
    assert (stats.drafted, stats.accepted) == tuple(map(sum, zip(*drafts))) and stats.drafted > 0
    assert stats.scored == stats.iterations + stats.drafted + 6
    assert stats.iterations == sum(one["steps"] for one in outputs) == len(drafts) + 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_is_learnt_of_drafts_from_a_prefix(backend):
    planning = Planner(4, column=0.01, share=0.01, measured=False)
    generator = make(
        block_drafter(toy_drafter()), backend=backend, always_draft=False, planning=planning
    )
    history = generator.parts().history
    before = vars(history).copy()
    ends = torch.full((len(SENTENCES), 1), EOS)
    assert tokens(decode(generator, ends)) == [[EOS]] * len(SENTENCES)
    assert vars(history) == before
    assert figures(generator.stats)["undrafted"] == generator.stats.iterations == len(SENTENCES)
    decode(generator)
    assert vars(history) != before


@pytest.mark.parametrize("backend", BACKENDS)
def test_iterations_go_one_by_one_or_in_one_call(backend, expected):
    generator = make(keep_trace=False, backend=backend)
    sample = make_sample(SENTENCES)
    with generator.batch(generator.models, sample) as batch:
        for done in range(2):
            assert batch.live and batch.rows.lengths_cpu == [done] * len(SENTENCES)
            batch.iterate()
        batch.iterate(2)
        at_once = batch.rows.longest - 2
        while batch.live:
            assert batch.rows.lengths.tolist() == batch.rows.lengths_cpu
            assert len(batch.rows.origin) == len(batch.rows.lengths_cpu)
            batch.iterate(100)
        assert batch.rows.lengths_cpu == []
        assert tokens([one for (one,) in batch.finished]) == expected
    assert at_once == (2 if backend == "native" else 1)


@pytest.mark.parametrize("beam, most", [(1, None), (1, 2), (3, 1)])
@pytest.mark.parametrize("backend", BACKENDS)
def test_sentences_are_handed_out_as_they_end(backend, beam, most):
    generator = make(args=flags(beam=beam, max_len_b=60), keep_trace=False, backend=backend)
    sample = make_sample(SENTENCES)
    expected = generator.generate(generator.models, sample)
    left, ended = [], {}
    with generator.batch(generator.models, sample) as batch:
        for sentence, hypotheses in batch.results(most):
            left.append(sum(one is None for one in batch.finished))
            assert sentence not in ended and hypotheses is batch.finished[sentence]
            ended[sentence] = hypotheses
    assert sorted(ended) == list(range(len(SENTENCES)))
    outputs = [[one["tokens"].tolist() for one in ended[row]] for row in sorted(ended)]
    assert outputs == [[one["tokens"].tolist() for one in row] for row in expected]
    assert left[-1] == 0 < left[0]


@pytest.mark.parametrize("kind", ["empty", "perfect"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_sentence_without_a_possible_token_is_named(backend, kind):
    """Row 0 has left when row 1 is asked for a token that is impossible."""
    args = flags(unkpen=float("inf"))
    prefix = torch.tensor([[EOS, PAD, PAD], [5, 6, 3]])
    drafter = ScriptedDrafter([[EOS], [5, 6, 3, 7]], kind, WORDS, 4)
    with pytest.raises(ValueError, match="no possible token at position 2 of sentence 1 in"):
        decode(make(drafter, args, backend=backend), prefix, SENTENCES[:2])


class Reader(ScriptedDrafter):
    """Drafts by script, and keeps what it is shown of the verifier's states."""

    read_layers = LAYERS

    def open(self, source):
        self.session = ReaderSession(self, len(source.net_input["src_tokens"]), source.max_len)
        self.session.verifier = source.verifier
        return self.session


def true_states(sentence, prefix):
    """[T, n C], those of the verifier that predict the tokens of a prefix."""
    verifier = Verifier([toy_model()], read_layers=LAYERS)
    net_input = make_sample([sentence])["net_input"]
    session = verifier.open(verifier.encode(net_input), len(prefix) + 1, len(prefix) + 1)
    session.score(torch.tensor([[EOS, *prefix[:-1]]]), chain_layout([0], len(prefix)))
    return session.sessions[0].states[0, 1 : len(prefix) + 1]


class ReaderSession(ScriptedSession):
    def __init__(self, script, rows, max_len):
        super().__init__(script, rows, max_len)
        self.states = {}  # of each sentence, when it was last drafted for
        self.calls = []

    def propose(self, rows, budget=None):
        if rows.shortest > 0:
            for i, (row, length) in enumerate(zip(rows.origin, rows.lengths_cpu)):
                self.states[row] = self.verifier.states[i, 1 : length + 1].clone()
        return super().propose(rows, budget)

    def keep(self, rows, kept):
        super().keep(rows, kept)
        self.calls.append((rows.tolist(), kept))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["noisy", "empty"])
def test_a_drafter_is_given_the_states_that_predicted_what_was_added(kind, backend, expected):
    drafter = Reader(expected, kind, WORDS, 3)
    generator = make(drafter, keep_trace=False, backend=backend)
    outputs = decode(generator)
    assert tokens(outputs) == expected
    for row, states in drafter.session.states.items():
        wanted = true_states(SENTENCES[row], expected[row][: len(states)])
        assert len(states) > 0 and torch.allclose(states, wanted, atol=1e-4)
    assert len(drafter.session.states) == len(SENTENCES)


@pytest.mark.parametrize("backend", BACKENDS)
def test_drafts_keep_to_the_limit_where_rows_are_uneven(backend, expected):
    """The drafter knows longer outputs, and proposes 30 columns."""
    args = flags(max_len_b=6)
    wanted = tokens(stock([toy_model()], make_sample(SENTENCES), args))
    drafter = Reader(expected, "noisy", WORDS, 30)
    outputs = decode(make(drafter, args, backend=backend))
    assert tokens(outputs) == wanted
    parts = [part for one in outputs for part in one["iterations"]]
    assert max(part.position + len(part.draft) for part in parts) == 6
    assert any(part.position > 2 and part.draft for part in parts)


class PerBatch(ExactRule):
    """Opens one of its own for a batch, and writes down what each is given."""

    def __init__(self):
        self.calls = []

    def open(self, rows, device):
        self.opened = PerBatch()
        self.calls.append((rows, device))
        return self.opened

    def select(self, rows):
        self.calls.append(rows.tolist())


def test_drafter_and_rule_are_given_the_rows_that_stay(expected):
    drafter, rule = Reader(expected, "noisy", WORDS, 3), PerBatch()
    outputs = decode(make(drafter, rule=rule))
    assert tokens(outputs) == expected
    left, live, stays = [len(one["iterations"]) for one in outputs], list(range(len(outputs))), []
    for done in range(1, max(left)):
        keep = [at for at, row in enumerate(live) if left[row] > done]
        if len(keep) < len(live):
            stays.append(keep)
            live = [live[at] for at in keep]
    assert len(stays) > 1 and drafter.session.calls == [(keep, keep) for keep in stays]
    assert rule.calls == [(len(SENTENCES), torch.device("cpu"))] and rule.opened.calls == stays


def test_an_end_behind_the_bonus_token_is_none():
    emitted = torch.tensor([[5, EOS, EOS], [5, 6, EOS], [EOS, 6, 7]])
    sizes, done = emitted_sizes(emitted, torch.tensor([0, 1, 2]), EOS)
    assert sizes.tolist() == [1, 2, 1] and done.tolist() == [False, False, True]
