"""Faults to put into the verifier; a test of identity that passes under one proves nothing."""

import torch

from fairseq_specdec.verifier import scorer
from fairseq_specdec.verifier.decoder_stack import DecoderStack
from fairseq_specdec.verifier.kv_cache import KVCache


def drop_the_mask(monkeypatch):
    """A block's tokens see those behind them, and slots that hold nothing yet."""

    def everything(horizon, slots):
        return torch.ones(horizon.size(0), 1, horizon.size(1), slots, dtype=torch.bool)

    monkeypatch.setattr(scorer, "horizon_mask", everything)


def shift_positions(monkeypatch):
    table = scorer.position_rows
    monkeypatch.setattr(scorer, "position_rows", lambda e, p, n: table(e, p, n + 1)[1:])


def lose_keys_and_values(monkeypatch):
    write = KVCache.write

    def lost(self, layer, entries, upto):
        return write(self, layer, entries * 0 if layer else entries, upto)

    monkeypatch.setattr(KVCache, "write", lost)


def leave_neighbours_sources(monkeypatch):
    """Rows that move up when others leave attend to the source of the row that stood there."""

    def prune(self, keep, host_keep):
        self.cache.prune(keep, host_keep)
        self.cross = [both[:, : len(host_keep)] for both in self.cross]
        if self.cross_mask is not None:
            self.cross_mask = self.cross_mask[: len(host_keep)]

    monkeypatch.setattr(DecoderStack, "prune", prune)


MUTANTS = [drop_the_mask, shift_positions, lose_keys_and_values, leave_neighbours_sources]
