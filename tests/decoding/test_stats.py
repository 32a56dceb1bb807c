"""What is counted of acceptance is that of the trace, and figures add up."""

from collections import Counter

import pytest
from toy_strategies import decode, make_generator
from toy_translation import make_sample, sentences

from fairseq_specdec.decoding.builder import Overrides
from fairseq_specdec.decoding.stats import DecodingStats


@pytest.mark.parametrize("backend", ["torch", "native"])
@pytest.mark.parametrize("case", ["gad", "iad", "sps"])
def test_acceptance_by_position_is_that_of_the_trace(case, backend):
    """Counted from what was drafted and what the verifier would have chosen."""
    generator = make_generator(case, backend=backend, overrides=Overrides(keep_trace=True))
    outputs = decode(generator, make_sample(sentences(24, 7)))
    judged, accepted = Counter(), Counter()
    for hypothesis in outputs:
        for one in hypothesis["iterations"]:
            for place, (token, choice) in enumerate(zip(one.draft, one.choices)):
                judged[place] += 1
                if token != choice:
                    break
                accepted[place] += 1
    shares = generator.stats.acceptance_by_position
    assert len(shares) == len(judged) > 2
    assert shares == [accepted[place] / judged[place] for place in range(len(judged))]
    assert 0 < min(shares[:2]) and any(share < 1 for share in shares)
    twice = DecodingStats()
    twice.add(generator.stats)
    twice.add(generator.stats)
    assert twice.acceptance_by_position == shares and sum(twice.judged.values()) > 0
    once, added = generator.stats.as_dict(), twice.as_dict()
    for name in ("emitted_tokens", "undrafted_iterations", "seconds", "seconds_verifier"):
        assert added[name] == pytest.approx(2 * once[name])
    assert added["mean_accepted_tokens"] == once["mean_accepted_tokens"] > 1
    assert DecodingStats().acceptance_by_position == []
