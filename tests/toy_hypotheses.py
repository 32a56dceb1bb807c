"""A drafter without a loop around it: its batch, what was accepted so far, its slow drafts."""

import torch
from toy_translation import EOS, PAD, make_sample

from fairseq_specdec.decoding.stats import Stopwatch
from fairseq_specdec.drafting import Source
from fairseq_specdec.engine.backend import TORCH
from fairseq_specdec.engine.hypotheses import Hypotheses


def hypotheses_of(outputs, columns=80):
    """Hypotheses of accepted tokens: lists of token ids, without the start symbol."""
    hypotheses = Hypotheses(len(outputs), columns, EOS, PAD, torch.zeros(0, dtype=torch.long))
    for row, output in enumerate(outputs):
        hypotheses.tokens[row, 1 : 1 + len(output)] = torch.tensor(output, dtype=torch.long)
    hypotheses.lengths_cpu = [len(output) for output in outputs]
    hypotheses.lengths = torch.tensor(hypotheses.lengths_cpu, dtype=torch.long)
    return hypotheses


def open_drafter(drafter, net_input, max_len, verifier=None, encoder_out=None, backend=TORCH):
    """A session of a drafter over one batch; it follows ``verifier``, or its own model."""
    ready = drafter.prepare(drafter.model if verifier is None else verifier, backend)
    return ready.open(Source(net_input, encoder_out or {}, max_len, Stopwatch()))


def open_on(drafter, sources, max_len, **more):
    """The same over sentences of the toy language."""
    return open_drafter(drafter, make_sample(sources)["net_input"], max_len, **more)


@torch.no_grad()
def training_pass(model, net_input, output, drafted=()):
    """Logits [k, V] of the block after an output, by the pass that training uses: one sentence, no
    cache. ``drafted``: the first tokens of the block, which a chain reads and masks do not see."""
    logits = model(
        prev_output_tokens=torch.tensor([[EOS, *output, *drafted]]),
        cuts=torch.tensor([[len(output)]]),
        targets=torch.full((1, 1, model.decoder.block_size), 5),
        **net_input,
    )["logits"].clone()
    logits[:, PAD] = float("-inf")
    return logits


def slow_draft(model, net_input, output, choose=lambda logits: int(logits.argmax())):
    """The block after an output, with a ``training_pass`` for every token."""
    drafted = []
    for j in range(model.decoder.block_size):
        drafted.append(choose(training_pass(model, net_input, output, drafted)[j]))
    return drafted
