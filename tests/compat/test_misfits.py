"""A model whose dictionaries are not the data's: which, and what to decode it with."""

import argparse

import pytest
import torch
from fairseq import checkpoint_utils
from in_process import run_here
from settings_payloads import with_settings

from fairseq_specdec.compat.settings import RefusedCheckpointError


def enlarged(trained, path, task, settings, layout):
    """The checkpoint with three symbols more on each side, as a task of its own adds them."""
    state = torch.load(str(trained.checkpoint), map_location="cpu", weights_only=False)
    state = with_settings(state, settings if layout == "args" else {}, layout)
    weights = dict(state["model"])
    for name, weight in weights.items():
        if "embed_tokens" in name or "output_projection" in name:
            weights[name] = torch.cat([weight, weight[:3]])
    if layout == "args":
        state["args"].task = task
    else:
        state["cfg"]["task"] = dict(settings, _name=task, data="x")
    torch.save(dict(state, model=weights), str(path))
    return str(path)


def refused(data, path, **flags):
    with pytest.raises(RuntimeError) as error:
        run_here("generate", data, path=path, beam=1, **flags)
    return str(error.value)


@pytest.mark.parametrize("layout", ["cfg", "args"])
def test_the_checkpoints_own_task_is_named(layout, trained, reversal_data, tmp_path):
    name, settings = "multilingual_translation", {"lang_pairs": "src-tgt"}
    path = enlarged(trained, tmp_path / "a.pt", name, settings, layout)
    asked = "translation" if layout == "args" else "translation_specdec"
    assert refused(reversal_data, path, task=asked) == (
        f"{path}: trained with dictionaries of 27 symbols, and those of the data have 24; its "
        "task multilingual_translation may have added symbols to them: decode it with --task "
        f"multilingual_translation{'_specdec' * (layout == 'cfg')} --lang-pairs src-tgt"
    )


def test_a_task_of_another_user_dir_is_named(trained, reversal_data, tmp_path):
    """The mixture of experts is one of fairseq's examples."""
    settings = {"method": "hMoElp", "num_experts": 3}
    path = enlarged(trained, tmp_path / "a.pt", "translation_moe", settings, "cfg")
    command = (
        "decode it with --user-dir FOLDER_THAT_REGISTERS_IT --task translation_moe --method "
        "hMoElp --num-experts 3"
    )
    message = refused(reversal_data, path, task="translation_specdec")
    assert message.endswith(f"its task translation_moe may have added symbols to them: {command}")
    path = enlarged(trained, tmp_path / "b.pt", "translation_moe", settings, "args")
    with pytest.raises(RefusedCheckpointError) as error:
        run_here("generate", reversal_data, path=path, task="translation_specdec")
    assert str(error.value) == f"{path}: its task translation_moe is not registered; {command}"


@pytest.mark.parametrize("layout", ["cfg", "args"])
def test_other_dictionaries_are_reported(layout, trained, reversal_data, tmp_path):
    settings = {"_name": "transformer"}  # of args it is the model's
    path = enlarged(trained, tmp_path / "a.pt", "translation", settings, layout)
    assert "; decode data binarised with the model's dict" in refused(
        reversal_data, path, task="translation_specdec"
    )


def test_a_checkpoint_in_shards_is_not_reported_missing(trained, reversal_data, tmp_path):
    """fairseq passes the number of shards by position."""
    state = torch.load(str(trained.checkpoint), map_location="cpu", weights_only=False)
    for shard in range(2):
        torch.save(state, str(tmp_path / f"a_part{shard}.pt"))
    run_here(
        "generate", reversal_data, task="translation", path=tmp_path / "a.pt", beam=1,
        checkpoint_shard_count=2,
    )  # fmt: skip
    with pytest.raises(FileNotFoundError, match="no such file; name a model's checkpoint"):
        checkpoint_utils.load_model_ensemble([str(tmp_path / "b.pt")], task=argparse.Namespace())


def test_names_of_weights_cannot_write_to_the_terminal(trained, reversal_data, tmp_path):
    path = str(tmp_path / "odd.pt")
    state = torch.load(str(trained.checkpoint), map_location="cpu", weights_only=False)
    state["model"] = dict(state["model"], **{"a\x1b[2Jb": torch.zeros(1)})
    torch.save(state, path)
    with pytest.raises(RuntimeError, match=r"its weights are not.*a\\x1b\[2Jb") as message:
        run_here("generate", reversal_data, path=path, task="translation", beam=1)
    assert str(message.value).isprintable()


@pytest.mark.parametrize(
    "layout, settings",
    [
        ("args", {"seed": "'"}),  # no literal
        ("args", {"train_subset": argparse.Namespace(a="x")}),  # nothing that Hydra can merge
        ("args", {"encoder_layers": [{"a": 1}]}),
        ("cfg", {"decoder_layers": "many"}),
        ("cfg", {"activation_fn": "a\x1bb"}),
        ("args", {"encoder_xformers_att_config": "{}"}),  # a package that is not installed
        ("namespace", {"encoder_embed_dim": argparse.Namespace()}),
    ],
    ids=str,
)
def test_settings_that_fairseq_cannot_use_are_refused_in_one_line(
    layout, settings, trained, reversal_data, tmp_path
):
    path = str(tmp_path / "odd.pt")
    state = torch.load(str(trained.checkpoint), map_location="cpu", weights_only=False)
    torch.save(with_settings(state, settings, layout), path)
    with pytest.raises(RefusedCheckpointError) as refused:
        run_here("generate", reversal_data, path=path, task="translation", beam=1)
    message = str(refused.value)
    assert (
        message.startswith(f"{path}: holds no model that fairseq can build (")
        and len(message) < 400
    )
    assert message.isprintable() and message.endswith("is the file sound?")


def test_a_value_that_omegaconf_takes_for_missing_is_refused(trained, reversal_data, tmp_path):
    path = str(tmp_path / "odd.pt")
    state = torch.load(str(trained.checkpoint), map_location="cpu", weights_only=False)
    state = with_settings(state, {}, "cfg")
    state["cfg"]["task"].update(data=str(reversal_data), upsample_primary="???")
    torch.save(state, path)
    with pytest.raises(RefusedCheckpointError, match=r"odd\.pt: holds no model .*upsample_primary"):
        checkpoint_utils.load_model_ensemble_and_task([path])
