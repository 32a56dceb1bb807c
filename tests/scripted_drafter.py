"""A drafter that is right, or wrong in a given way: every kind of acceptance and rejection."""

import torch

from fairseq_specdec.drafters import Draft, Drafter

PAD, EOS, FIRST = 1, 2, 4

KINDS = [
    "perfect",
    "noisy",
    "random",
    "eos",
    "pad",
    "wrong",
    "sometimes",
    "past the end",
    "empty",
    "a neighbour's",
    "junk behind",
]


class ScriptedDrafter(Drafter):
    """Drafts from given outputs.

    Args:
        outputs: token ids of each sentence of the batch, </s> included; a larger batch begins again
            with the first.
        kind: one of ``KINDS``: the outputs themselves; with three tokens in ten replaced; random
            tokens; </s>, or padding, only; never the right token; nothing half of the time; right
            and then far past </s> and any length limit; never anything; the outputs of the next
            sentence; right, with nonsense in the columns that do not count.
        words: words of the target dictionary.
        size: tokens of a draft.
    """

    def __init__(self, outputs, kind, words, size=5):
        assert kind in KINDS
        self.outputs, self.kind, self.words, self.size = outputs, kind, words, size

    def start(self, net_input, max_len, encoder_out):
        self.rows = list(range(net_input["src_tokens"].size(0)))
        self.max_len = max_len
        self.generator = torch.Generator().manual_seed(3)

    def propose(self, tokens, lengths, host_lengths):
        size = self.size
        if self.kind == "past the end":
            size = self.max_len + self.size + 1
        draft = torch.full((len(self.rows), size), PAD)
        counts = []
        for i, (row, done) in enumerate(zip(self.rows, host_lengths)):
            source = row + 1 if self.kind == "a neighbour's" else row
            rest = self.outputs[source % len(self.outputs)][done : done + size]
            draft[i, : len(rest)] = torch.tensor(rest, dtype=torch.long)
            counts.append(len(rest))
        noise = torch.rand(draft.shape, generator=self.generator)
        random = torch.randint(3, FIRST + self.words, draft.shape, generator=self.generator)
        full = [size] * len(counts)
        if self.kind == "noisy":
            draft = torch.where(noise < 0.3, random, draft)
        elif self.kind == "random":
            draft, counts = random, full
        elif self.kind in ("eos", "pad"):
            draft = torch.full_like(draft, EOS if self.kind == "eos" else PAD)
            counts = full
        elif self.kind == "wrong":
            draft, counts = (draft - 3) % self.words + FIRST, full
        elif self.kind == "sometimes":
            counts = [c if torch.rand(1, generator=self.generator) < 0.5 else 0 for c in counts]
        elif self.kind == "past the end":
            draft = torch.where(draft == PAD, random, draft)
            counts = full
        elif self.kind == "empty":
            draft, counts = draft[:, :0], [0] * len(counts)
        elif self.kind == "junk behind":
            columns = torch.arange(size)
            counts = [min(c, 1 + (c + row) % size) for c, row in zip(counts, self.rows)]
            draft = torch.where(columns >= torch.tensor(counts).unsqueeze(1), random, draft)
        return Draft(draft, torch.tensor(counts))

    def prune(self, keep, host_keep):
        self.rows = [self.rows[r] for r in host_keep]
