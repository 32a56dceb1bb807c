"""A drafter without a loop around it: its batch, what was accepted so far, its slow drafts."""

from types import SimpleNamespace

import torch
from toy_translation import EOS, PAD, make_sample

from fairseq_specdec.decoding.stats import Stopwatch
from fairseq_specdec.drafting import Source
from fairseq_specdec.engine.backend import TORCH
from fairseq_specdec.engine.state import Layout, Rows


def rows_of(outputs, columns=80, origin=None):
    """Rows with accepted tokens: lists of token ids, without the start symbol. ``origin``: their
    numbers in the batch that came in."""
    rows = Rows(len(outputs), columns, EOS, PAD, torch.zeros(0, dtype=torch.long))
    for row, output in enumerate(outputs):
        rows.tokens[row, 1 : 1 + len(output)] = torch.tensor(output, dtype=torch.long)
    sizes = [len(output) for output in outputs]
    rows.advance(torch.tensor(sizes, dtype=torch.long))
    rows.grow(sizes)
    rows.origin = origin or rows.origin
    return rows


def by_column(states):
    """[B, T + 1, n C], as a session holds states [B, T, n C] that predicted the first T tokens."""
    return torch.nn.functional.pad(states, (0, 0, 1, 0))


def chain_layout(lengths, width, device="cpu"):
    """The layout of a block of ``width`` tokens after so many accepted ones of each row."""
    return Layout.chain(
        SimpleNamespace(lengths=torch.tensor(lengths, device=device), lengths_cpu=lengths), width
    )


def open_drafter(drafter, net_input, max_len, verifier=None, encoder_out=None, backend=TORCH):
    """A session of a drafter over one batch; it follows ``verifier``, or its own model. What it
    reads of the verifier is set as ``session.verifier.states``."""
    ready = drafter.prepare(drafter.model if verifier is None else verifier, backend)
    session = SimpleNamespace(states=None)
    return ready.open(Source(net_input, encoder_out or {}, max_len, Stopwatch(), session))


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
