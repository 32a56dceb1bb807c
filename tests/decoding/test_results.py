"""The hypothesis that fairseq's tools are given."""

import pytest
import torch

from fairseq_specdec.decoding.batch import hypothesis
from fairseq_specdec.decoding.beam.observed import BeamPass, LiveHypothesis
from fairseq_specdec.decoding.iteration import Iteration, SentenceTrace, TracedIteration
from fairseq_specdec.decoding.options import DecodingOptions

TOKENS, SCORES = torch.tensor([5, 6, 7, 2]), torch.tensor([-1.0, -2.0, -3.0, -2.0])
SECONDS = (0.3, 0.1, 0.2)
BEAM = BeamPass(1, 2, 0, 0, [LiveHypothesis([8], False), LiveHypothesis([9], True)], [])
# Sentence 4 in the last of 2 rows, then alone.
TRACE = SentenceTrace(
    [
        Iteration(
            [1, 2], [1, 0], [0, 1], [0, 0], [0, 2], 3, SECONDS,
            [[], [5, 9]], [[8], [5, 6]], [[8], [5, 6]], [1, 4],
        ),
        Iteration([1], [0], [0], [0], [0], 0, SECONDS, [[]], [[7]], [[7]], [4]),
    ],
    4,
)  # fmt: skip


@pytest.mark.parametrize(
    "normalize, penalty, score",
    [(True, 1.0, -2.0), (True, 0.5, -4.0), (True, 0.0, -8.0), (False, 1.0, -8.0)],
)
def test_the_score_is_normalised_as_stock_does(normalize, penalty, score):
    options = DecodingOptions("greedy", normalize_scores=normalize, len_penalty=penalty)
    ended = hypothesis(TOKENS, SCORES, 2, options, SentenceTrace())
    assert ended["score"].shape == () and float(ended["score"]) == score
    for name, given in (("tokens", TOKENS), ("positional_scores", SCORES)):
        assert ended[name].equal(given) and ended[name].data_ptr() != given.data_ptr()
    assert ended["steps"] == 2 and list(ended["iterations"]) == list(ended["history"]) == []
    # Tools look at their number of elements.
    assert ended["attention"].numel() == ended["alignment"].numel() == 0
    assert set(ended) == {
        "tokens", "score", "attention", "alignment", "positional_scores", "steps", "history",
        "iterations",
    }  # fmt: skip


def test_the_history_holds_two_lines_for_each_iteration():
    with torch.inference_mode():
        ended = hypothesis(TOKENS, SCORES, 2, DecodingOptions("greedy", keep_history=True), TRACE)
    assert not any(line["tokens"].is_inference() for line in ended["history"])
    lines = [dict(line, tokens=line["tokens"].tolist()) for line in ended["history"]]
    assert lines == [
        {"iteration": 0, "accepted": 1, "kind": "draft", "tokens": [5, 9]},
        {"iteration": 0, "accepted": 1, "kind": "emitted", "tokens": [5, 6]},
        {"iteration": 1, "accepted": 0, "kind": "draft", "tokens": []},
        {"iteration": 1, "accepted": 0, "kind": "emitted", "tokens": [7]},
    ]
    assert all(line["tokens"].dtype == torch.long for line in ended["history"])
    assert ended["iterations"] is TRACE
    assert hypothesis(TOKENS, SCORES, 2, DecodingOptions("greedy"), TRACE)["history"] == []


def test_a_trace_is_made_from_the_columns_of_its_row():
    assert TRACE.accepted == [1, 0] and TRACE.drafts == [[5, 9], []]
    assert list(TRACE) == TRACE[:]
    assert TRACE[:] == [
        TracedIteration(0, [5, 9], ["own", "rejected"], [5, 6], 6, 3, 2, 300.0, 100.0, 200.0),
        TracedIteration(2, [], [], [7], 7, 0, 1, 300.0, 100.0, 200.0),
    ]
    assert TRACE.emitted == [[5, 6], [7]]


def test_a_trace_of_beam_search_has_what_all_hypotheses_agree_on():
    none = [0, 0]
    columns = {"emitted": [[8], []], "beam": [BEAM, BEAM], "rows": [0, 2]}
    done = Iteration([1, 0], none, none, none, none, 0, SECONDS, [[], []], [[], []], **columns)
    (part,) = SentenceTrace([done], 2)
    assert (part.position, part.agreed, part.live, part.beam, part.rows) == (0, [], 2, BEAM, 2)
    assert part.emitted == part.draft == part.verdicts == part.choices == []
