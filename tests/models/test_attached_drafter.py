"""The drafter that reads its verifier: what is saved, and what it computes."""

import pytest
import torch
from toy_drafter import make_batch, make_drafter, save_verifier

from fairseq_specdec.checkpoints.reading import reading
from fairseq_specdec.models import AttachedDrafter
from fairseq_specdec.training.block_noising import block_targets

ARCH = "attached_drafter_tiny"


@pytest.fixture
def theirs(tmp_path):
    return save_verifier(tmp_path / "v.pt", decoder_output_dim=64).eval()


@pytest.fixture
def verifier(theirs, tmp_path):
    return str(tmp_path / "v.pt")


def attached(path, **settings):
    return make_drafter(arch=ARCH, model=AttachedDrafter, attach_to=path, **settings)


def run(model, batch, cuts, **changes):
    net_input = dict(batch["net_input"], **changes)
    targets = block_targets(batch["target"], cuts, model.decoder.block_size, 1)
    return model(cuts=cuts, targets=targets, **net_input)["logits"]


def test_the_settings_keep_the_layers_and_not_the_file(verifier):
    model = attached(verifier)
    assert (model.cfg.attach_to, model.cfg.read_layers) == (None, "1,2")
    again = make_drafter(arch=ARCH, model=AttachedDrafter, read_layers="1,2")
    again.load_state_dict(model.state_dict())
    with pytest.raises(ValueError, match="--attach-to"):
        run(again, make_batch(), torch.zeros(5, 1, dtype=torch.long))


def test_a_checkpoint_opens_no_other_file(verifier):
    """One that names itself was loaded without an end."""
    model = attached(verifier)
    with reading(path="drafter.pt"):
        again = attached("no such file", read_layers=model.cfg.read_layers)
    assert again.cfg.attach_to is None


def test_a_block_sees_the_prefix_and_nothing_behind_its_cut(verifier):
    torch.manual_seed(0)
    model = attached(verifier).eval()
    batch = make_batch()
    cuts = torch.full((5, 1), 2)
    before = run(model, batch, cuts)
    previous = batch["net_input"]["prev_output_tokens"]
    later, earlier = previous.clone(), previous.clone()
    later[:, 3:], earlier[:, 2] = 7, 7
    assert torch.allclose(before, run(model, batch, cuts, prev_output_tokens=later), atol=1e-5)
    changed = run(model, batch, cuts, prev_output_tokens=earlier)
    assert not torch.allclose(before, changed, atol=1e-3)


def test_the_states_read_are_those_of_the_verifiers_own_layers(verifier, theirs):
    model, net_input = attached(verifier), make_batch()["net_input"]
    _, states, final = model.encoder.read(**net_input, like=torch.zeros(1))
    logits, extra = theirs(**net_input)
    torch.testing.assert_close(model.encoder.predict(final), logits)
    first = extra["inner_states"][1].transpose(0, 1)
    torch.testing.assert_close(states, torch.cat([first, final], 2))
