"""Faults to put into the engine; a test of identity that passes under one proves nothing."""

import functools

import torch

from fairseq_specdec.acceptance import Acceptance, AcceptanceRule
from fairseq_specdec.decoding import search
from fairseq_specdec.decoding.loop import Batch
from fairseq_specdec.decoding.search import GreedySearch
from fairseq_specdec.engine import layout, transformer
from fairseq_specdec.engine.eager.decoder import DecoderSession, DecoderWeights
from fairseq_specdec.engine.eager.kv_cache import KVCache
from fairseq_specdec.engine.native.library import ENVIRONMENT
from fairseq_specdec.engine.verifier import VerifierSession


def on_torch(mutant):
    """A fault of the torch backend: the native library, which has none, stays out of the way."""

    @functools.wraps(mutant)
    def without_library(monkeypatch):
        monkeypatch.setenv(ENVIRONMENT, "off")
        mutant(monkeypatch)

    return without_library


@on_torch
def drop_the_mask(monkeypatch):
    """A block's tokens see those after them, and slots that hold nothing yet."""

    def everything(horizon, slots):
        return torch.ones(horizon.size(0), 1, horizon.size(1), slots, dtype=torch.bool)

    monkeypatch.setattr(layout, "horizon_mask", everything)


@on_torch
def shift_positions(monkeypatch):
    table = transformer.position_rows
    monkeypatch.setattr(transformer, "position_rows", lambda e, p, n: table(e, p, n + 1)[1:])


@on_torch
def lose_keys_and_values(monkeypatch):
    write = KVCache.write

    def lost(self, layer, entries):
        return write(self, layer, entries * 0 if layer else entries)

    monkeypatch.setattr(KVCache, "write", lost)


@on_torch
def leave_neighbours_sources(monkeypatch):
    """Rows that move up when others leave attend to the source of the row that stood there."""

    def select(self, rows, rows_cpu):
        self.cache.select(rows, rows_cpu)
        self.cross = [[both[:, : len(rows_cpu)] for both in each] for each in self.cross]
        if self.cross_mask is not None:
            self.cross_mask = self.cross_mask[: len(rows_cpu)]

    monkeypatch.setattr(DecoderSession, "select", select)


@on_torch
def commit_a_slot_less(monkeypatch):
    """The verifier's cache forgets the last slot of a row that moves up."""
    commit = VerifierSession.commit

    def forgetful(self, lengths, lengths_cpu):
        commit(self, lengths, [max(0, have - 1) for have in lengths_cpu])

    monkeypatch.setattr(VerifierSession, "commit", forgetful)


class AlteredRule(AcceptanceRule):
    """A rule whose verdicts are changed: ``change(draft, best, verdict)``."""

    def __init__(self, rule, change):
        self.rule, self.change = rule, change

    def open(self, rows, device):
        return self.rule.open(rows, device)  # a search that is opened with it alters it again

    def select(self, rows):
        self.rule.select(rows)

    def accept(self, draft, scores):
        verdict = self.rule.accept(draft, scores)
        return self.change(draft, scores.best(), verdict)


def alter_verdicts(monkeypatch, change):
    init = GreedySearch.__init__

    def altered(self, rule):
        init(self, AlteredRule(rule, change))

    monkeypatch.setattr(GreedySearch, "__init__", altered)


@on_torch
def accept_a_token_too_many(monkeypatch):
    """The first wrong token of a draft is kept, and what follows it."""

    def change(draft, best, verdict):
        counts = torch.minimum(verdict.counts + 1, draft.sizes)
        return Acceptance(counts, best.gather(1, counts.unsqueeze(1)).squeeze(1))

    alter_verdicts(monkeypatch, change)


@on_torch
def repeat_the_last_token(monkeypatch):
    """The bonus token is read one position early."""

    def change(draft, best, verdict):
        before = (verdict.counts - 1).clamp(min=0)
        return verdict._replace(next_token=best.gather(1, before.unsqueeze(1)).squeeze(1))

    alter_verdicts(monkeypatch, change)


@on_torch
def decode_past_the_end(monkeypatch):
    """</s> ends a sentence only as the bonus token, not as an accepted one."""

    def sizes(emitted, counts, eos):
        done = emitted.gather(1, counts.unsqueeze(1)).squeeze(1) == eos
        return counts + 1, done

    monkeypatch.setattr(search, "emitted_sizes", sizes)


@on_torch
def write_finished_rows(monkeypatch):
    """A row that moves up finishes in the place of the one that stood there and had finished."""
    iterate = Batch.iterate

    def stale(self, *most):
        origin = self.origin
        iterate(self, *most)
        self.origin = origin[: len(self.origin)]

    monkeypatch.setattr(Batch, "iterate", stale)


@on_torch
def skip_the_bonus_token(monkeypatch):
    """After a draft that was right to its end, the bonus token is thrown away: no output changes,
    and every such iteration is worth a token less."""

    def change(draft, best, verdict):
        if draft.width == 0:
            return verdict
        whole = (verdict.counts == draft.sizes) & (draft.sizes > 0)
        counts = verdict.counts - whole.long()
        at = counts.clamp(max=draft.width - 1).unsqueeze(1)
        last = draft.tokens.gather(1, at).squeeze(1)
        return Acceptance(counts, torch.where(whole, last, verdict.next_token))

    alter_verdicts(monkeypatch, change)


@on_torch
def share_one_cache(monkeypatch):
    """All batches of a decoder keep their keys and values in one place."""
    opened, caches = DecoderWeights.open, {}

    def shared(self, *args):
        self._caches[:] = [caches[self]] if self in caches else []
        session = opened(self, *args)
        caches[self] = session.cache
        return session

    monkeypatch.setattr(DecoderWeights, "open", shared)


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
