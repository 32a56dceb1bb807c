"""A drafter that notes the prefixes and hidden states it is given, and what these should be."""

import torch
from toy_translation import EOS, make_sample, toy_model

from fairseq_specdec.drafting import Drafter, DraftSession, Forecast
from fairseq_specdec.engine.layout import Layout
from fairseq_specdec.engine.verifier import Verifier

LAYERS = (1, 2)


class Listener(Drafter, DraftSession):
    """Writes down what it is given, and proposes the same words always; one batch only.

    Attributes:
        calls: (row of the batch, prefix, states that predicted it) of each forecast.
    """

    for_beams = forecasts = True
    read_layers = LAYERS

    def open(self, source):
        self.rows = list(range(source.net_input["src_tokens"].size(0)))
        self.read = [torch.zeros(0) for _ in self.rows]
        self.calls = []
        return self

    def forecast(self, hypotheses, kept, hidden_states, most, count):
        rows = len(self.rows)
        assert hypotheses.tokens.size(0) == len(kept) == rows
        assert (hypotheses.tokens[:, 0] == EOS).all()
        assert hypotheses.lengths.tolist() == hypotheses.lengths_cpu
        for row, (length, keep) in enumerate(zip(hypotheses.lengths_cpu, kept)):
            assert (hidden_states is None) == (length == 0)
            if length:
                states, sizes = hidden_states
                assert int(sizes[row]) == length - keep > 0
                old = self.read[row][:keep].view(-1, states.size(2))
                self.read[row] = torch.cat([old, states[row, : length - keep]])
                prefix = hypotheses.tokens[row, 1 : length + 1].tolist()
                self.calls.append((self.rows[row], prefix, self.read[row]))
        words = torch.arange(4, 4 + count).expand(rows, most, count)
        return Forecast(torch.full((rows, most, count), -1.0), words)

    def select(self, rows, rows_cpu):
        assert rows.tolist() == rows_cpu
        self.rows = [self.rows[row] for row in rows_cpu]
        self.read = [self.read[row] for row in rows_cpu]


def true_states(sentence, prefix):
    """[T, n C], those of the verifier that predict the tokens of a prefix."""
    verifier = Verifier([toy_model()], read_layers=LAYERS)
    net_input = make_sample([sentence])["net_input"]
    session = verifier.open(verifier.encode(net_input), len(prefix) + 1, len(prefix) + 1)
    at = torch.arange(len(prefix)).unsqueeze(0)
    session.score(torch.tensor([[EOS, *prefix[:-1]]]), Layout.at(at, [len(prefix) - 1]))
    states = session.hidden_states()[0]
    session.close()
    return states


def wrong(calls, sentences):
    """How many of the states are not those of their prefix."""
    with torch.no_grad():
        return sum(
            not torch.allclose(states, true_states(sentences[row], prefix), atol=1e-4)
            for row, prefix, states in calls
        )
