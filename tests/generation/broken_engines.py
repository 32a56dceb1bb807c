"""Faults to put into the engine; a test of identity that passes under one proves nothing."""

import torch

from fairseq_specdec.acceptance import Acceptance
from fairseq_specdec.generation import batch
from fairseq_specdec.generation.batch import Batch
from fairseq_specdec.generation.generator import SpeculativeGenerator
from fairseq_specdec.verifier import scorer
from fairseq_specdec.verifier.decoder_stack import DecoderStack
from fairseq_specdec.verifier.kv_cache import KVCache
from fairseq_specdec.verifier.verifier import Verifier


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


def commit_a_slot_less(monkeypatch):
    """The verifier's cache forgets the last slot of a row that moves up."""
    commit = Verifier.commit

    def forgetful(self, lengths, host_lengths):
        commit(self, lengths, [max(0, have - 1) for have in host_lengths])

    monkeypatch.setattr(Verifier, "commit", forgetful)


class AlteredRule:
    """A rule whose verdicts are changed: ``change(draft, lengths, best, verdict)``."""

    def __init__(self, rule, change):
        self.rule, self.change = rule, change

    def __getattr__(self, name):
        return getattr(self.rule, name)

    def accept(self, draft, lengths, log_probs, best, draft_log_probs=None):
        verdict = self.rule.accept(draft, lengths, log_probs, best, draft_log_probs)
        return self.change(draft, lengths, best, verdict)


def alter_verdicts(monkeypatch, change):
    begin = SpeculativeGenerator.begin

    def altered(self, *args, **kwargs):
        if not isinstance(self.rule, AlteredRule):
            self.rule = AlteredRule(self.rule, change)
        return begin(self, *args, **kwargs)

    monkeypatch.setattr(SpeculativeGenerator, "begin", altered)


def accept_a_token_too_many(monkeypatch):
    """The first wrong token of a draft is kept, and what follows it."""

    def change(draft, lengths, best, verdict):
        counts = torch.minimum(verdict.counts + 1, lengths)
        return Acceptance(counts, best.gather(1, counts.unsqueeze(1)).squeeze(1))

    alter_verdicts(monkeypatch, change)


def repeat_the_last_token(monkeypatch):
    """The verifier's own token is read one position early."""

    def change(draft, lengths, best, verdict):
        before = (verdict.counts - 1).clamp(min=0)
        return verdict._replace(next_token=best.gather(1, before.unsqueeze(1)).squeeze(1))

    alter_verdicts(monkeypatch, change)


def decode_past_the_end(monkeypatch):
    """</s> ends a sentence only as the verifier's own token, not as an accepted one."""

    def sizes(emitted, counts, eos):
        done = emitted.gather(1, counts.unsqueeze(1)).squeeze(1) == eos
        return counts + 1, done

    monkeypatch.setattr(batch, "emitted_sizes", sizes)


def write_finished_rows(monkeypatch):
    """A row that moves up finishes in the place of the one that stood there and had finished."""
    prune = Batch._prune

    def stale(self, keep):
        origin = self.origin
        prune(self, keep)
        self.origin = origin[: len(keep)]

    monkeypatch.setattr(Batch, "_prune", stale)


def skip_the_bonus_token(monkeypatch):
    """Behind a draft that was right to its end, the verifier's own token is thrown away: no output
    changes, and every such iteration is worth a token less."""

    def change(draft, lengths, best, verdict):
        if draft.size(1) == 0:
            return verdict
        whole = (verdict.counts == lengths) & (lengths > 0)
        counts = verdict.counts - whole.long()
        last = draft.gather(1, counts.clamp(max=draft.size(1) - 1).unsqueeze(1)).squeeze(1)
        return Acceptance(counts, torch.where(whole, last, verdict.next_token))

    alter_verdicts(monkeypatch, change)


# Each changes outputs.
MUTANTS = [
    drop_the_mask,
    shift_positions,
    lose_keys_and_values,
    leave_neighbours_sources,
    commit_a_slot_less,
    accept_a_token_too_many,
    repeat_the_last_token,
    decode_past_the_end,
    write_finished_rows,
]
# Each costs iterations and changes nothing else.
SLOWER = [skip_the_bonus_token]
