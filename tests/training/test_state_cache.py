"""States of known sentences come from the folder, and only those of this verifier."""

import logging
import pathlib

import numpy as np
import pytest
import torch
from fairseq.models.transformer import TransformerDecoderBase
from toy_drafter import PAD, make_batch, make_drafter, save_verifier

from fairseq_specdec.models import AttachedDrafter
from fairseq_specdec.training import state_cache
from fairseq_specdec.training.block_noising import block_targets
from fairseq_specdec.training.state_cache import StateCache, sentence_key


def sentence(number, source=3, target=2):
    draw = np.random.default_rng(number)
    rows = [draw.normal(size=shape).astype(np.float16) for shape in ((source, 4), (target, 8))]
    return sentence_key(np.array([number])), rows


def filled(folder, numbers=(1, 2, 3)):
    cache = StateCache(str(folder), "v", (4, 8))
    for number in numbers:
        key, rows = sentence(number)
        cache.add(key, *rows)
    return cache


def files(folder, kind):
    return sorted(pathlib.Path(folder).glob(f"v/*.{kind}"))


def holds(cache, number):
    key, rows = sentence(number)
    cached = cache.find(key)
    return cached is not None and all(map(np.array_equal, cached, rows))


def test_what_was_added_is_found_at_once_and_by_later_runs(tmp_path):
    cache = filled(tmp_path)
    assert all(holds(cache, number) for number in (1, 2, 3)) and not holds(cache, 4)
    later = filled(tmp_path, (3, 4))
    assert len(later) == 4 and all(holds(later, number) for number in (1, 2, 3, 4))
    assert len(files(tmp_path, "states")) == 2
    assert len(StateCache(str(tmp_path), "another", (4, 8))) == 0


def test_a_key_holds_where_the_source_ends():
    keys = [sentence_key(np.array(a), np.array(b)) for a, b in (([1, 2], [3]), ([1], [2, 3]))]
    assert keys[0] != keys[1]


def test_a_killed_run_leaves_what_was_whole(tmp_path):
    filled(tmp_path)
    (index,), (states,) = files(tmp_path, "index"), files(tmp_path, "states")
    index.write_bytes(index.read_bytes()[:-1])
    assert [holds(StateCache(str(tmp_path), "v", (4, 8)), n) for n in (1, 2, 3)] == [1, 1, 0]
    states.write_bytes(states.read_bytes()[:60])
    assert [holds(StateCache(str(tmp_path), "v", (4, 8)), n) for n in (1, 2, 3)] == [1, 0, 0]


@pytest.mark.parametrize("kind, at", [("states", 5), ("index", 3), ("index", 20), ("index", 26)])
def test_damage_is_found(tmp_path, kind, at, caplog):
    filled(tmp_path)
    (path,) = files(tmp_path, kind)
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))
    cache = StateCache(str(tmp_path), "v", (4, 8))
    with caplog.at_level(logging.WARNING):
        assert [holds(cache, number) for number in (1, 2, 3)] == [False, True, True]
    assert ("damaged" in caplog.text) == ((kind, at) != ("index", 3))  # a key that nobody has


def test_a_full_disk_is_reported_once_and_nothing_is_lost(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(state_cache, "LEAST_FREE", 1 << 62)
    cache = filled(tmp_path)
    assert len(cache) == 0 and caplog.text.count("less than 1 GiB") == 1


def test_what_cannot_be_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="--cache-verifier-states.*file"):
        StateCache(str(tmp_path / "file"), "v", (4, 8))


def losses(model, batch):
    lengths = batch["target"].ne(PAD).sum(1)
    cuts = (lengths[:, None] * torch.tensor([0.2, 0.7])).long()
    targets = block_targets(batch["target"], cuts, model.decoder.block_size, PAD)
    output = model(cuts=cuts, targets=targets, soft_targets=True, **batch["net_input"])
    gold = targets[output["learnt"]]
    loss = torch.nn.functional.cross_entropy(output["logits"], gold, reduction="none")
    return torch.cat([loss, output["expected"].logsumexp(1)]).detach()


@pytest.mark.parametrize("layers", ["1", "1,2"])
def test_a_drafter_reads_its_verifier_once(tmp_path, layers, monkeypatch):
    torch.manual_seed(3)
    save_verifier(tmp_path / "v.pt", decoder_output_dim=64)

    def drafter(**settings):
        torch.manual_seed(4)
        return make_drafter(
            arch="attached_drafter_tiny", model=AttachedDrafter, attach_to=str(tmp_path / "v.pt"),
            read_layers=layers, **settings,
        ).eval()  # fmt: skip

    batch = make_batch(rows=6)
    expected = losses(drafter(), batch)
    caching = drafter(cache_verifier_states=str(tmp_path / "states"))
    assert caching.cfg.cache_verifier_states is None
    assert torch.equal(losses(caching, batch), expected)
    again = drafter(cache_verifier_states=str(tmp_path / "states"))
    monkeypatch.setattr(TransformerDecoderBase, "extract_features_scriptable", None)  # the verifier
    for model in (caching, again):
        assert torch.allclose(losses(model, batch), expected, atol=0.02)
    monkeypatch.undo()
    longer = make_batch(rows=6, longest=11)  # other padding and new sentences
    for key, value in batch["net_input"].items():
        if key != "src_lengths":
            assert value.size(1) < longer["net_input"][key].size(1)
    assert torch.equal(losses(caching, longer), losses(drafter(), longer))


def test_the_verifiers_tables_are_in_the_drafters_format_where_all_states_are_kept(tmp_path):
    save_verifier(tmp_path / "v.pt", decoder_output_dim=64)

    def drafter():
        return make_drafter(
            arch="attached_drafter_tiny", model=AttachedDrafter, attach_to=str(tmp_path / "v.pt"),
            verifier_embeddings=True, cache_verifier_states=str(tmp_path / "states"),
        ).bfloat16().eval()  # fmt: skip

    batch = make_batch(rows=6)
    expected = losses(drafter(), batch)
    assert torch.equal(losses(drafter(), batch) > 0, expected > 0)
