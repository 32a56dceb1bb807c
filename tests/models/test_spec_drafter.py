import pathlib

import pytest
import torch
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models import ARCH_CONFIG_REGISTRY
from omegaconf import OmegaConf
from toy_drafter import ToyTask, make_batch, make_drafter

from fairseq_specdec.criterions import GlancingBlockLossConfig
from fairseq_specdec.models import SpecDrafter, SpecDrafterConfig
from fairseq_specdec.training.block_noising import block_targets

SHAPES = {
    "spec_drafter": (12, 2, 512, 2048, 8),
    "spec_drafter_base": (12, 2, 512, 2048, 8),
    "spec_drafter_big": (12, 2, 1024, 4096, 16),
    "nar_drafter_base": (6, 6, 512, 2048, 8),
    "nar_drafter_big": (6, 6, 1024, 4096, 16),
    "spec_drafter_tiny": (2, 1, 64, 128, 2),
}


@pytest.mark.parametrize("arch", SHAPES)
def test_every_architecture_has_the_shape_of_its_name(arch):
    encoder_layers, decoder_layers, width, inner, heads = SHAPES[arch]
    fewer = {} if width < 1024 else {"encoder_layers": 1, "decoder_layers": 1}  # quick to build
    model = make_drafter(arch=arch, **fewer)
    assert len(model.encoder.layers) == fewer.get("encoder_layers", encoder_layers)
    assert len(model.decoder.layers) == fewer.get("decoder_layers", decoder_layers)
    for layer in (model.encoder.layers[0], model.decoder.layers[0]):
        assert layer.fc1.weight.shape == (inner, width)
        assert layer.self_attn.num_heads == heads
    args = OmegaConf.create({})
    ARCH_CONFIG_REGISTRY[arch](args)
    assert (args.encoder_layers, args.decoder_layers) == (encoder_layers, decoder_layers)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"bidirectional_prefix": True, "num_cuts": 2}, "--bidirectional-prefix.*--num-cuts"),
        ({"block_size": 0}, "--block-size 0"),
        ({"num_cuts": -1}, "--num-cuts -1"),
        ({"adaptive_softmax_cutoff": "10,20"}, "--adaptive-softmax-cutoff"),
        ({"decoder_embed_dim": 32}, "--encoder-embed-dim is 64"),
        ({"source_copy": True, "no_token_positional_embeddings": True}, "--source-copy"),
        ({"init_decoder_layers": "0"}, "--init-decoder-from"),
        ({"decoder_layers": 0}, "--decoder-layers 0: a drafter needs 1 or more"),
        ({"verifier_embeddings": True}, "--verifier-embeddings"),
        ({"task": ToyTask(40, target_words=41)}, "--share-all-embeddings.*--joined-dictionary"),
    ],
)
def test_what_cannot_be_is_refused_by_the_flags_name(settings, message):
    with pytest.raises(ValueError, match=message):
        make_drafter(**settings)


def test_every_parameter_learns_with_and_without_glancing():
    """Data-parallel training fails on a parameter that gets no gradient."""
    model = make_drafter(source_copy=True, share_all_embeddings=False, encoder_learned_pos=True)
    batch = make_batch()
    cuts = torch.zeros(5, 1, dtype=torch.long)
    targets = block_targets(batch["target"], cuts, 4, 1)
    for ratio in (0.0, 1.0):
        model.zero_grad()
        output = model(**batch["net_input"], cuts=cuts, targets=targets, glancing_ratio=ratio)
        output["logits"].float().pow(2).sum().backward()
        missing = [n for n, p in model.named_parameters() if p.grad is None]
        assert not missing, missing


@pytest.mark.parametrize("name", ["spec_drafter_toy", "spec_drafter_leftward"])
def test_the_yaml_files_have_no_unknown_field_and_build(name):
    path = pathlib.Path(__file__).resolve().parents[2] / "configs" / f"{name}.yaml"
    config = OmegaConf.load(str(path))
    known = set(SpecDrafterConfig.__dataclass_fields__)
    assert set(config.model) <= known | {"_name"}
    assert set(config.criterion) <= set(GlancingBlockLossConfig.__dataclass_fields__)
    for group in ("common", "dataset", "optimization", "checkpoint"):
        fields = FairseqConfig.__dataclass_fields__[group].type.__dataclass_fields__
        assert set(config[group]) <= set(fields)
    ARCH_CONFIG_REGISTRY[config.model._name](config.model)
    model = SpecDrafter.build_model(config.model, ToyTask())
    assert model.decoder.num_cuts == config.model.num_cuts
