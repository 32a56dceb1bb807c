"""Every configuration, as fairseq-hydra-train reads it: composed, checked, complete."""

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

DECLARED = yaml.safe_load(recipe_config.CONFIGS.read_text(encoding="utf-8"))["configs"]
NAMES = sorted(DECLARED)
UNSET = "???"
# One for each set of rooms that recipe_config.py tells apart.
EACH = (
    "bild_early_exit", "gec_scratch_big", "mt_blockwise_base",
    "mt_spec_drafter_small", "mt_verifier_12_2", "sum_bart_base", "sum_nar_drafter",
)  # fmt: skip
# What hydra 1.3 says of the way in which fairseq calls it.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
import_user_module(argparse.Namespace(user_dir=str(REPO / "fairseq_specdec")))


def leaves(config):
    """(room, setting, value) of everything that a configuration says."""
    return [(room, name, value) for room in config for name, value in config[room].items()]


def composed(folder, config, overrides=()):
    """The configuration that fairseq_cli.hydra_train trains with, before it starts.

    Raises:
        Exception: of hydra or omegaconf, for what it does not know or cannot read.
    """
    (folder / "made.yaml").write_text(recipe_config.text(config), encoding="utf-8")
    hydra_init("made")
    with initialize_config_dir(config_dir=str(folder)):
        made = compose(config_name="made", overrides=list(overrides))
    add_defaults(made)
    return made


def fill(config):
    """An override for each setting that the user has to make."""
    return [f"{room}.{name}=/some/where" for room, name, value in leaves(config) if value == UNSET]


def plain(value):
    return OmegaConf.to_container(value) if OmegaConf.is_config(value) else value


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in EACH)) for name in NAMES]
)
def test_every_setting_arrives(name, tmp_path):
    settings = recipe_config.read(name)
    config = composed(tmp_path, settings, fill(settings))
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
def test_what_the_recipes_override_is_there_to_override(name, tmp_path):
    """Hydra takes no override of a setting that neither the YAML nor fairseq has."""
    settings = recipe_config.read(name)
    overrides = recipe_config.overrides(settings, 2, None, 5, print)
    overrides += ["common.cpu=true", "common.fp16=false", "checkpoint.save_dir=/a", "task.data=/b"]
    overrides += ["task.source_lang=en", "task.target_lang=de", "common.user_dir=/c"]
    config = composed(tmp_path, settings, overrides)
    assert config.optimization.max_update == 5 and config.task.source_lang == "en"
    assert config.distributed_training.distributed_world_size == 2
