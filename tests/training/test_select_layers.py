"""A 12+2 model from a 12+12 one: which layers, with which settings, of what else nothing."""

import copy
from argparse import Namespace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.bart import BARTModel
from fairseq.models.transformer import TransformerModel
from toy_translation import make_sample, make_task, sentences

from fairseq_specdec.training.select_layers import cli_main, load, parse_layers, select

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
    model.eval()
    return model, {
        "args": args,
        "cfg": None,
        "model": {name: value.clone() for name, value in model.state_dict().items()},
        "optimizer_history": [{"criterion_name": "c", "num_updates": 7}],
        "extra_state": {"train_iterator": {"epoch": 2, "iterations_in_epoch": 0}},
        "last_optimizer_state": {"large": torch.zeros(3)},
    }


def scores(model):
    net_input = make_sample(sentences(4, seed=9))["net_input"]
    previous = torch.tensor([[2, 5, 6, 9]]).repeat(4, 1)
    with torch.no_grad():
        return model(prev_output_tokens=previous, **net_input)[0]


def test_all_layers_are_the_same_model():
    model, state = bart()
    before = copy.deepcopy(state["model"])
    result, report = select(state, range(6))
    assert torch.equal(scores(load(result)), scores(model))
    assert report.dropped == [] and len(report.heads) == 4
    assert set(result["model"]) == {n for n in before if not n.startswith("classification")}
    assert all(torch.equal(result["model"][n], before[n]) for n in result["model"])
    # What was given is as it was.
    assert state["args"].decoder_layers == 6 and state["args"].arch == "bart_base"
    assert set(state["model"]) == set(before)


def test_the_chosen_layers_are_applied_in_their_order():
    model, state = bart()
    result, report = select(state, [0, 5])
    small = load(result)
    assert type(small) is TransformerModel and len(small.encoder.layers) == 2
    assert result["args"].decoder_layers == 2 and result["args"].arch == "transformer"
    assert report.kept == [0, 5] and report.dropped == [1, 2, 3, 4]
    cut = copy.deepcopy(model)
    cut.decoder.layers = torch.nn.ModuleList([model.decoder.layers[0], model.decoder.layers[5]])
    assert torch.equal(scores(small), scores(cut))
    turned = load(select(state, [5, 0])[0])
    assert not torch.allclose(scores(turned), scores(cut), atol=1e-3)
    assert "0 as 0, 5 as 1" in str(report) and "1, 2, 3, 4" in str(report)
    assert result["last_optimizer_state"] is None
    assert result["optimizer_history"][-1]["num_updates"] == 0


def test_settings_in_every_form_are_adjusted():
    _, state = bart()
    flat = dict(vars(state["args"]), _name="bart_base")
    for model in (
        Namespace(**flat),
        {
            "_name": "transformer",
            "share_all_embeddings": True,
            "layernorm_embedding": True,
            "no_scale_embedding": True,
            "activation_fn": "gelu",
            "base_layers": 0,
            "max_source_positions": 64,
            "max_target_positions": 64,
            "encoder": {
                "embed_dim": 16, "ffn_embed_dim": 24, "layers": 2, "attention_heads": 2,
                "learned_pos": True,
            },
            "decoder": {
                "embed_dim": 16, "ffn_embed_dim": 24, "layers": 6, "attention_heads": 2,
                "learned_pos": True, "input_dim": 16, "output_dim": 16,
            },
        },
    ):  # fmt: skip
        saved = {"args": None, "cfg": {"model": model, "task": {}}, "model": state["model"]}
        result, _ = select(saved, [1, 4])
        expected = load(select(state, [1, 4])[0])
        assert torch.equal(scores(load(result)), scores(expected))


def test_the_mask_of_bart_is_left_out_where_the_dictionary_lacks_it():
    task = make_task()
    task.src_dict.add_symbol("<mask>")
    model, state = bart(task)
    symbols = len(task.src_dict) - 1
    result, report = select(state, [0, 5], symbols)
    assert report.mask_row
    with torch.no_grad():
        small, whole = load(result), load(select(state, [0, 5])[0])
        assert torch.allclose(scores(small), scores(whole)[..., :-1])
    assert not select(state, [0, 5], symbols + 1)[1].mask_row
    with pytest.raises(ValueError, match=f"--dict: has {symbols - 1} symbols"):
        select(state, [0, 5], symbols - 1)


def test_the_command_writes_what_fairseq_reads(tmp_path, capsys):
    model, state = bart()
    source, dest = tmp_path / "bart.pt", tmp_path / "small.pt"
    torch.save(state, str(source))
    cli_main([str(source), str(dest)])
    from fairseq import checkpoint_utils

    loaded, _ = checkpoint_utils.load_model_ensemble([str(dest)], task=make_task())
    assert torch.equal(scores(loaded[0].eval()), scores(load(select(state, [0, 5])[0])))
    saved = torch.load(dest, weights_only=False)
    assert saved["layer_selection"]["decoder_layers"] == [0, 5]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bart.pt", "small.pt"]
    with pytest.raises(SystemExit, match="exists; --force replaces it"):
        cli_main([str(source), str(dest)])
    cli_main([str(source), str(dest), "--decoder-layers", "3", "--force"])
    assert torch.load(dest, weights_only=False)["args"].decoder_layers == 1
    cli_main([str(source), str(dest), "--keep", "1", "--force"])
    assert torch.load(dest, weights_only=False)["layer_selection"]["decoder_layers"] == [0]


@pytest.mark.parametrize(
    "flags, why",
    [
        (["--keep", "7"], "--keep 7: expected 1 to 6"),
        (["--keep", "0"], "--keep 0"),
        (["--decoder-layers", "0,6"], "--decoder-layers 0,6: expected different numbers from 0 to"),
        (["--decoder-layers", "1,1"], "--decoder-layers 1,1"),
        (["--decoder-layers", "a"], "--decoder-layers a: expected numbers"),
        (["--dict", "/nowhere"], "--dict: /nowhere is no file"),
    ],
)
def test_mistakes_are_named_and_nothing_is_written(tmp_path, flags, why):
    torch.save(bart()[1], str(tmp_path / "bart.pt"))
    with pytest.raises(SystemExit, match=f"select_layers: error: {why}"):
        cli_main([str(tmp_path / "bart.pt"), str(tmp_path / "small.pt"), *flags])
    assert not (tmp_path / "small.pt").exists()


def test_other_files_are_refused(tmp_path):
    def refused(why):
        with pytest.raises(SystemExit, match=why):
            cli_main([str(tmp_path / "in.pt"), str(tmp_path / "out.pt")])

    refused("no such file")
    (tmp_path / "in.pt").write_bytes(b"PK\x03\x04 cut off")
    refused("cannot be read")
    for state, what in (
        ({"weights": {}}, "holds no model"),
        ([1], "holds a list, no checkpoint"),
        (dict(bart()[1], model={}), "its model has no weights"),
        (dict(bart()[1], args=None), "has neither args nor cfg"),
    ):
        torch.save(state, str(tmp_path / "in.pt"))
        refused(f"in.pt: {what}; name a checkpoint that fairseq-train wrote")
    state = bart()[1]
    torch.save(dict(state, model={"encoder.x": torch.zeros(1)}), str(tmp_path / "in.pt"))
    refused("holds no encoder-decoder transformer")
    state["args"].encoder_ffn_embed_dim = 20
    torch.save(state, str(tmp_path / "in.pt"))
    refused("not those that its settings say")
    assert parse_layers("0,11") == [0, 11]
