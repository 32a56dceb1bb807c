"""A 12+2 model from a 12+12 one: which layers, with which settings, of what else nothing."""

import copy
from argparse import Namespace

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.bart import BARTModel
from fairseq.models.transformer import TransformerModel
from select_layers import select, write
from toy_translation import make_sample, make_task, sentences

SHAPE = {
    "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 24, "encoder_layers": 2,
    "encoder_attention_heads": 2, "decoder_layers": 6, "decoder_attention_heads": 2, "dropout": 0.0,
    "max_source_positions": 64, "max_target_positions": 64,
}  # fmt: skip


def bart(task=None):
    """A random BART-like model (learned positions, layernorm_embedding) and its checkpoint."""
    torch.manual_seed(3)
    args = Namespace(arch="bart_base", task="denoising", **SHAPE)
    ARCH_CONFIG_REGISTRY["bart_base"](args)
    model = BARTModel.build_model(args, task or make_task())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))  # no two layers alike
    model.register_classification_head("mnli", num_classes=3)
    return model.eval(), {
        "args": args,
        "cfg": None,
        "model": {name: value.clone() for name, value in model.state_dict().items()},
        "optimizer_history": [{"criterion_name": "c", "num_updates": 7}],
        "extra_state": {"train_iterator": {"epoch": 2, "iterations_in_epoch": 0}},
        "last_optimizer_state": {"large": torch.zeros(3)},
    }


@pytest.fixture
def loaded(tmp_path):
    """What fairseq reads of a checkpoint."""

    def load(state, task=None):
        path = str(tmp_path / "loaded.pt")
        torch.save(state, path)
        (model,), _ = checkpoint_utils.load_model_ensemble([path], task=task or make_task())
        return model.eval()

    return load


def scores(model):
    net_input = make_sample(sentences(4, seed=9))["net_input"]
    previous = torch.tensor([[2, 5, 6, 9]]).repeat(4, 1)
    with torch.no_grad():
        return model(prev_output_tokens=previous, **net_input)[0]


@pytest.mark.parametrize("layers", [[0, 1, 2, 3, 4, 5], [0, 5], [5, 0]])
def test_the_chosen_layers_are_applied_in_their_order(loaded, layers):
    model, state = bart()
    before = copy.deepcopy(state)
    small = loaded(select(state, layers))
    cut = copy.deepcopy(model)
    cut.decoder.layers = torch.nn.ModuleList([model.decoder.layers[each] for each in layers])
    assert torch.equal(scores(small), scores(cut)) and type(small) is TransformerModel
    assert state["args"] == before["args"] and state["model"].keys() == before["model"].keys()


def test_the_mask_of_bart_is_left_out_where_the_dictionary_lacks_it(loaded):
    task = make_task()
    symbols = len(task.src_dict)
    task.src_dict.add_symbol("<mask>")
    _, state = bart(task)
    small = loaded(select(state, [0, 5], symbols))
    whole = loaded(select(state, [0, 5], symbols + 1), task)
    assert torch.allclose(scores(small), scores(whole)[..., :-1])
    with pytest.raises(ValueError, match=f"the dictionary: has {symbols - 1} symbols"):
        select(state, [0, 5], symbols - 1)


def test_what_is_written_fairseq_reads(tmp_path, loaded):
    source, dest = tmp_path / "bart.pt", tmp_path / "small.pt"
    torch.save(bart()[1], source)
    make_task().target_dictionary.save(str(tmp_path / "dict.txt"))
    for keep, layers in ((2, [0, 5]), (1, [0])):
        write(source, dest, keep, tmp_path / "dict.txt")
        saved = torch.load(dest, map_location="cpu", weights_only=False)
        assert saved["layer_selection"]["decoder_layers"] == layers
        assert saved["args"].decoder_layers == len(layers) and not saved["last_optimizer_state"]
        assert torch.equal(scores(loaded(saved)), scores(loaded(select(bart()[1], layers))))


@pytest.mark.parametrize(
    "keep, spoil, why",
    [
        (7, None, "KEEP 7: the decoder has 6 layers"),
        (2, b"PK\x03\x04 cut off", "bart.pt: cannot be read|bart.pt: .*truncated"),
        (2, {"encoder.x": torch.zeros(1)}, "bart.pt: holds no encoder-decoder transformer"),
    ],
)
def test_mistakes_are_named_and_nothing_is_written(tmp_path, keep, spoil, why):
    source, state = tmp_path / "bart.pt", bart()[1]
    torch.save({**state, "model": spoil} if isinstance(spoil, dict) else state, str(source))
    if isinstance(spoil, bytes):
        source.write_bytes(spoil)
    with pytest.raises(ValueError, match=why):
        write(source, tmp_path / "small.pt", keep, tmp_path / "dict.txt")
    assert not (tmp_path / "small.pt").exists()
