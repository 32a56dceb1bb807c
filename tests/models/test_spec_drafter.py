import pathlib

import torch
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models import ARCH_CONFIG_REGISTRY
from omegaconf import OmegaConf
from toy_drafter import ToyTask, make_batch, make_drafter

from fairseq_specdec.criterions import GlancingBlockLossConfig
from fairseq_specdec.models import SpecDrafter, SpecDrafterConfig
from fairseq_specdec.training.block_noising import block_targets

CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs"


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


def test_the_configuration_has_no_unknown_field_and_builds():
    config = OmegaConf.load(str(CONFIGS / "spec_drafter_leftward.yaml"))
    assert set(config.model) <= {*SpecDrafterConfig.__dataclass_fields__, "_name"}
    assert set(config.criterion) <= set(GlancingBlockLossConfig.__dataclass_fields__)
    for group in ("common", "dataset", "optimization", "checkpoint"):
        fields = FairseqConfig.__dataclass_fields__[group].type.__dataclass_fields__
        assert set(config[group]) <= set(fields)
    ARCH_CONFIG_REGISTRY[config.model._name](config.model)
    model = SpecDrafter.build_model(config.model, ToyTask())
    assert model.decoder.num_cuts == config.model.num_cuts
