"""The blockwise model: heads on a trained Transformer, taken over whole."""

import pytest
import torch
from toy_blockwise import make_batch, make_blockwise, save_checkpoint, teach
from toy_translation import make_task, sentences
from toy_translation import toy_model as trained_model

from fairseq_specdec.models import BlockwiseTransformer

BATCH = make_batch(sentences(6, seed=5))


def toy_model(shape="post_norm"):
    """Its weights matter here, not what it says."""
    return trained_model(shape, updates=2)


def logits_of(model):
    with torch.no_grad():
        return model(**BATCH["net_input"])[0]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp("base") / "verifier.pt"
    save_checkpoint(path, toy_model())
    return path


@pytest.mark.parametrize(
    "shape, first_head",
    [("learned", "learned"), ("separate_embeddings", "identity"), ("narrow_output", "learned")],
)
def test_starts_as_the_transformer_it_is_put_on(shape, first_head, tmp_path):
    base = toy_model(shape)
    path = tmp_path / "base.pt"
    save_checkpoint(path, base)
    # The architecture says 2+2 layers with separate embeddings: the file decides.
    model, args = make_blockwise(path, block_size=3, first_head=first_head)
    model.eval()
    assert torch.equal(logits_of(model), logits_of(base))
    theirs = base.state_dict()
    for name, value in model.state_dict().items():
        if name.startswith("decoder.block_heads."):
            continue
        same = torch.equal(value, theirs.pop(name))
        # fairseq 0.12.1 saves this buffer, which says a device and holds no number.
        assert same or name.endswith("._float_tensor"), name
    assert not theirs

    # The settings alone, without the file, build the same model.
    path.unlink()
    assert args.init_from is None
    again = BlockwiseTransformer.build_model(args, make_task())
    again.load_state_dict(model.state_dict(), strict=True)
    assert torch.equal(logits_of(again.eval()), logits_of(base))


@pytest.mark.parametrize("first_head", ["identity", "learned"])
def test_heads_equal_the_equations(checkpoint, first_head):
    torch.manual_seed(1)
    model, _ = make_blockwise(checkpoint, block_size=3, first_head=first_head)
    heads = model.decoder.block_heads
    for parameter in heads.parameters():
        parameter.data.normal_(0, 0.1)
    model.eval()
    with torch.no_grad():
        previous = BATCH["net_input"]["prev_output_tokens"]
        everywhere = torch.ones_like(previous, dtype=torch.bool)
        logits = model(**BATCH["net_input"], heads=[1, 2, 3], where=[everywhere] * 3)
        features, _ = toy_model().forward(**BATCH["net_input"], features_only=True)
        hidden = torch.relu(features @ heads.hidden.weight.t() + heads.hidden.bias)
        outputs = (hidden @ heads.output.weight.t() + heads.output.bias).chunk(
            len(heads.learned), -1
        )
        project = model.decoder.output_projection.weight.t()
        expected = [(features + x) @ project for x in outputs]
        if first_head == "identity":
            expected = [features @ project] + expected
    for ours, theirs in zip(logits, expected):
        torch.testing.assert_close(ours, theirs.flatten(0, 1), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(logits_of(model), expected[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("first_head", ["identity", "learned"])
def test_a_frozen_base_stays(checkpoint, first_head):
    model, _ = make_blockwise(
        checkpoint, block_size=3, first_head=first_head, freeze_base=True, dropout=0.4
    )
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.train()
    assert model.decoder.block_heads.dropout_module.training
    assert not model.encoder.training and not model.decoder.layers[0].training
    teach(model, 3)
    for name, value in model.state_dict().items():
        moved = not torch.equal(value, before[name])
        assert moved == name.startswith("decoder.block_heads."), name
    assert torch.equal(logits_of(model), logits_of(toy_model())) == (first_head == "identity")


def test_a_bad_file_names_the_flag(checkpoint, tmp_path):
    with pytest.raises(FileNotFoundError, match="--init-from: no file"):
        make_blockwise(tmp_path / "none.pt")
    state = torch.load(str(checkpoint), weights_only=False)
    model, args = make_blockwise(checkpoint, block_size=2)
    args._name = "blockwise_transformer"
    torch.save(dict(state, args=args, model=model.state_dict()), str(tmp_path / "heads.pt"))
    with pytest.raises(ValueError, match="--init-from: .* has heads already"):
        make_blockwise(tmp_path / "heads.pt")
    state["model"]["encoder.embed_tokens.weight"] = torch.zeros(5, 32)
    torch.save(state, str(tmp_path / "other.pt"))
    with pytest.raises(ValueError, match="--init-from: .*dictionary of 5 symbols"):
        make_blockwise(tmp_path / "other.pt")
