"""Which architectures are built from a checkpoint: all for stock fairseq, known ones for us."""

import argparse

import pytest
import torch
from fairseq import models
from fairseq.models import ARCH_MODEL_REGISTRY
from in_process import hypotheses, run_here
from settings_payloads import with_settings
from toy_translation import make_task

from fairseq_specdec.checkpoints.architectures import VARIABLE
from fairseq_specdec.checkpoints.reading import reading
from fairseq_specdec.checkpoints.settings import RefusedCheckpointError
from fairseq_specdec.config import TranslationSpecDecConfig
from fairseq_specdec.hub import SpeculativeTranslator
from fairseq_specdec.tasks.translation_specdec import TranslationSpecDecTask


@pytest.mark.parametrize("layout, task", [("cfg", "translation_specdec"), ("args", "hub")])
def test_an_architecture_of_another_user_dir(layout, task, trained, reversal_data, tmp_path):
    state = torch.load(str(trained.checkpoint), map_location="cpu", weights_only=False)
    path = str(tmp_path / "other.pt")
    settings = {"_name": "somebodys_transformer", "arch": "somebodys_transformer"}
    torch.save(with_settings(state, settings, layout), path)
    with pytest.raises(ValueError) as refused:
        if task == "hub":
            SpeculativeTranslator.from_pretrained(path, data=str(reversal_data))
        else:
            run_here("generate", reversal_data, task=task, path=path, beam=1)
    assert str(refused.value).replace("verifier: ", "") == (
        f"{path}: its architecture somebodys_transformer is not registered; name the folder that "
        "registers it by --user-dir (its __init__.py may import fairseq_specdec.tasks)"
    )


class Foreign:
    """A model of somebody else's."""

    @classmethod
    def build_model(cls, cfg, task):
        return "built"


def our_task():
    task = make_task()
    return TranslationSpecDecTask(TranslationSpecDecConfig(), task.src_dict, task.tgt_dict)


def build(arch, task):
    return models.build_model(argparse.Namespace(arch=arch), task)


def test_foreign_architectures_are_built_for_stock_tasks(monkeypatch):
    monkeypatch.setitem(ARCH_MODEL_REGISTRY, "foreign", Foreign)
    with reading(path="a.pt"):
        assert build("foreign", make_task()) == "built"
    assert build("foreign", our_task()) == "built"  # from the command line
    for task, guard in ((our_task(), reading(path="x")), (make_task(), reading(ours=True))):
        with reading(path="a.pt"), guard, reading(path="b.pt"):
            with pytest.raises(RefusedCheckpointError, match=f"^b.pt: .* set {VARIABLE}=foreign"):
                build("foreign", task)
        with reading(path="a.pt"):
            assert build("foreign", make_task()) == "built"  # the limit ends with the reading
    monkeypatch.setenv(VARIABLE, "other, foreign")
    with reading(path="a.pt"):
        assert build("foreign", our_task()) == "built"
    monkeypatch.setenv(VARIABLE, "foreigner")
    with reading(path="a.pt"), pytest.raises(RefusedCheckpointError):
        build("foreign", our_task())


@pytest.mark.parametrize("arch", ["wav2vec_ctc", "fconv_self_att", "roberta_enc_dec"])
def test_models_that_open_other_files_are_not_built_for_us(arch):
    with reading(path="a.pt"), reading(ours=True):
        with pytest.raises(RefusedCheckpointError, match="open files that they name"):
            build(arch, make_task())


def test_tables_of_embeddings_are_not_opened(trained, reversal_data, tmp_path):
    """A pipe by that name was waited for. fairseq itself wants the table of training again."""
    state = torch.load(str(trained.checkpoint), map_location="cpu", weights_only=False)
    settings = dict.fromkeys(("encoder_embed_path", "decoder_embed_path"), str(tmp_path / "gone"))
    torch.save(with_settings(state, settings, "cfg"), str(tmp_path / "a.pt"))
    sound, damaged = (
        hypotheses(run_here("generate", reversal_data, task="translation_specdec", path=path)[0])
        for path in (trained.checkpoint, tmp_path / "a.pt")
    )
    assert damaged == sound
    with pytest.raises(FileNotFoundError, match="gone"):
        run_here("generate", reversal_data, task="translation", path=tmp_path / "a.pt")
