"""Every YAML of configs/, as fairseq-hydra-train reads it: composed, checked, complete."""

import argparse

import pytest
import recipe_config
import yaml
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
from fairseq.dataclass.initialize import add_defaults, hydra_init
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.utils import import_user_module
from omegaconf import OmegaConf
from recipe_parts import REPO

try:
    from hydra import compose, initialize_config_dir
except ImportError:  # 1.0, of fairseq 0.12.1 and 0.12.2
    from hydra.experimental import compose, initialize_config_dir

CONFIGS = REPO / "configs"
NAMES = sorted(path.stem for path in CONFIGS.glob("*.yaml"))
UNSET = "???"
# One for each set of rooms that recipe_config.py tells apart.
EACH = (
    "bild_early_exit", "gec_scratch_big", "mt_blockwise_base", "mt_spec_drafter_small",
    "mt_verifier_12_2", "sum_bart_base", "sum_nar_drafter",
)  # fmt: skip
# What hydra 1.3 says of the way in which fairseq calls it.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
import_user_module(argparse.Namespace(user_dir=str(REPO / "fairseq_specdec")))


def read(name):
    return yaml.safe_load((CONFIGS / f"{name}.yaml").read_text(encoding="utf-8"))


def leaves(config):
    """(room, setting, value) of everything that a YAML says."""
    return [(room, name, value) for room in config for name, value in config[room].items()]


def composed(name, overrides=(), folder=CONFIGS):
    """The configuration that fairseq_cli.hydra_train trains with, before it starts.

    Raises:
        Exception: of hydra or omegaconf, for what it does not know or cannot read.
    """
    hydra_init(name)
    with initialize_config_dir(config_dir=str(folder)):
        config = compose(config_name=name, overrides=list(overrides))
    add_defaults(config)
    return config


def fill(config):
    """An override for each setting that the user has to make."""
    return [f"{room}.{name}=/some/where" for room, name, value in leaves(config) if value == UNSET]


def plain(value):
    return OmegaConf.to_container(value) if OmegaConf.is_config(value) else value


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name not in EACH)) for name in NAMES],
)
def test_every_setting_arrives(name):
    settings = read(name)
    config = composed(name, fill(settings))
    for room, setting, value in leaves(settings):
        wanted = "/some/where" if value == UNSET else value
        assert plain(config[room][setting]) == wanted, f"{room}.{setting}"
    # Of a model, fairseq itself refuses nothing: names that it does not know are lost.
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    ARCH_MODEL_REGISTRY[settings["model"]["_name"]].add_args(parser)
    known = {action.dest for action in parser._actions}
    known |= {"_name", "base_layers", "decoder_input_dim"}  # which have no flag
    known |= {"max_source_positions", "max_target_positions"}  # flags of the task
    assert set(settings["model"]) <= known
    assert settings["criterion"]["_name"] in CRITERION_DATACLASS_REGISTRY


@pytest.mark.parametrize("name", EACH)
def test_what_the_recipes_override_is_there_to_override(name):
    """Hydra takes no override of a setting that neither the YAML nor fairseq has."""
    overrides = recipe_config.overrides(CONFIGS / f"{name}.yaml", 2, None, 5, print)
    overrides += ["common.cpu=true", "common.fp16=false", "checkpoint.save_dir=/a", "task.data=/b"]
    overrides += ["task.source_lang=en", "task.target_lang=de", "common.user_dir=/c"]
    config = composed(name, overrides)
    assert config.optimization.max_update == 5 and config.task.source_lang == "en"
    assert config.distributed_training.distributed_world_size == 2


@pytest.mark.parametrize(
    "change",
    [
        ("weight_decay: 0.01", "weight_decai: 0.01"),
        ("clip_norm: 5.0", "clip_norms: 5.0"),
        ("max_tokens: 4096", "max_tokens: many"),
        ("glancing_start: 0.5", "glance_start: 0.5"),
        ("_name: inverse_sqrt", "_name: fixed"),  # which has no warmup_init_lr
    ],
)
def test_a_slip_is_refused(change, tmp_path):
    text = (CONFIGS / "mt_spec_drafter_base.yaml").read_text(encoding="utf-8")
    assert change[0] in text
    (tmp_path / "slip.yaml").write_text(text.replace(*change), encoding="utf-8")
    with pytest.raises(Exception, match="(?i)not in|merging"):
        composed("slip", folder=tmp_path)


# Kim et al. 2023, section 7.1.1.
BILD = {
    "optimizer._name": "adafactor", "lr_scheduler._name": "fixed", "dataset.batch_size": 16,
    "optimization.max_update": 500000, "optimization.update_freq": [1],
    "optimizer.relative_step": False, "optimizer.scale_parameter": False,
    "distributed_training.distributed_world_size": 1,
}  # fmt: skip
# Ge et al. 2022, Table 13, and Xia et al. 2023, Table 7.
BOTH = {
    "distributed_training.distributed_world_size": 8, "optimization.update_freq": [4],
    "criterion.label_smoothing": 0.1, "lr_scheduler._name": "inverse_sqrt",
    "optimizer._name": "adam", "checkpoint.keep_interval_updates": 10, "common.fp16": True,
}  # fmt: skip
VERIFIER = {
    **BOTH, "dataset.max_tokens": 20000, "optimization.lr": [0.001],
    "optimizer.adam_betas": "(0.9,0.99)", "optimizer.weight_decay": 1e-5,
    "optimization.clip_norm": 3.0, "lr_scheduler.warmup_updates": 4000,
    "optimization.max_update": 100000, "optimization.max_epoch": 1000,
}  # fmt: skip
DRAFTER = {
    **BOTH, "dataset.max_tokens": 4096, "optimization.lr": [5e-4], "optimizer.adam_eps": 1e-6,
    "optimizer.adam_betas": "(0.9,0.999)", "optimizer.weight_decay": 0.01,
    "optimization.clip_norm": 5.0, "lr_scheduler.warmup_updates": 10000,
    "lr_scheduler.warmup_init_lr": 1e-7, "optimization.max_update": 300000,
}  # fmt: skip
LARGE, SMALL = (0.5e-4, 1e-4), (0.5e-4, 1e-4, 2e-4, 5e-4)
PUBLISHED = {
    **{name: (BILD, LARGE) for name in ("bild_large", "sum_bild_large")},
    **{name: (BILD, SMALL) for name in ("bild_small", "bild_early_exit", "sum_bild_small")},
    **{name: (VERIFIER, (0.001,)) for name in ("mt_verifier_base", "mt_verifier_12_2")},
    **{
        name: (DRAFTER, (5e-4,))
        for name in NAMES
        if name.startswith(("mt_", "sum_")) and name.split("_")[1] in ("nar", "spec")
    },
}


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_models_are_trained_as_published(name):
    settings = {f"{room}.{setting}": value for room, setting, value in leaves(read(name))}
    published, rates = PUBLISHED[name]
    for key, value in published.items():
        assert settings[key] == value, key
    assert settings["optimization.lr"][0] in rates
    if published is BILD:
        assert settings["optimization.lr"] == settings["optimizer.lr"]
    elif published is DRAFTER:
        assert settings["model.dropout"] in (0.1, 0.2, 0.3)
