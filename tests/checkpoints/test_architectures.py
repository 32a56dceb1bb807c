"""Which architectures are built from a checkpoint: all for stock fairseq, known ones for us."""

import argparse
import importlib
import inspect
import re

import pytest
import torch
from fairseq import models
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from in_process import hypotheses, run_here
from settings_payloads import with_settings
from toy_translation import make_task

from fairseq_specdec.checkpoints.architectures import READ, VARIABLE
from fairseq_specdec.checkpoints.reading import reading
from fairseq_specdec.checkpoints.settings import RefusedCheckpointError
from fairseq_specdec.config import TranslationSpecDecConfig
from fairseq_specdec.hub import SpeculativeTranslator
from fairseq_specdec.tasks.translation_specdec import TranslationSpecDecTask


def test_a_convolutional_model_decodes_with_the_stock_task_alone(reversal_data, tmp_path):
    run_here(
        "train", reversal_data, task="translation", optimizer="adam", max_update=1, arch="fconv",
        criterion="cross_entropy", batch_size=8, encoder_layers="[(16, 3)] * 2",
        decoder_layers="[(16, 3)]", encoder_embed_dim=8, decoder_embed_dim=8,
        decoder_out_embed_dim=8, save_dir=tmp_path, disable_validation=True, data_buffer_size=0,
    )  # fmt: skip
    path = str(tmp_path / "checkpoint_last.pt")
    out, _ = run_here("generate", reversal_data, task="translation", path=path, beam=2)
    assert len(hypotheses(out)) == 100
    message = "holds a FConvModel.*fairseq's Transformers only"
    with pytest.raises(ValueError, match=message):
        run_here("generate", reversal_data, task="translation_specdec", path=path, beam=1)
    with pytest.raises(ValueError, match=message):
        SpeculativeTranslator.from_pretrained(path, None, str(reversal_data))


@pytest.mark.parametrize("layout", ["cfg", "args"])
@pytest.mark.parametrize("task", ["translation", "translation_specdec", "hub"])
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


@pytest.mark.parametrize("layout", ["cfg", "args"])
def test_tables_of_embeddings_are_not_opened(layout, trained, reversal_data, tmp_path):
    """A pipe by that name was waited for. fairseq itself wants the table of training again."""
    state = torch.load(str(trained.checkpoint), map_location="cpu", weights_only=False)
    settings = dict.fromkeys(("encoder_embed_path", "decoder_embed_path"), str(tmp_path / "gone"))
    torch.save(with_settings(state, settings, layout), str(tmp_path / "a.pt"))
    sound, damaged = (
        hypotheses(run_here("generate", reversal_data, task="translation_specdec", path=path)[0])
        for path in (trained.checkpoint, tmp_path / "a.pt")
    )
    assert damaged == sound
    with pytest.raises(FileNotFoundError, match="gone"):
        run_here("generate", reversal_data, task="translation", path=tmp_path / "a.pt")


# What reads another file, or runs text.
OPENING = re.compile(
    r"\b(load_\w*checkpoint\w*|load_model_ensemble\w*|load_pretrained_component_from_model|load|open|"
    r"urlopen|cached_path|exec|compile|system|Popen|import_module|__import__|get_from_cache)\("
)
# By module, what opens the file of a setting that is emptied beforehand.
EMPTIED = {"speech_to_text.s2t_transformer": {"load_pretrained_component_from_model"}}


def opening(module):
    """Names of ``OPENING`` that a module calls."""
    source = inspect.getsource(importlib.import_module(module))
    return set(OPENING.findall(re.sub(r"def \w+", "", source)))


def test_what_is_built_for_us_opens_no_file():
    """The modules of fairseq that define these models and their base classes."""
    named = {f"{each.__module__}.{each.__qualname__}".removeprefix("fairseq.models."): each
             for each in (*ARCH_MODEL_REGISTRY.values(), *MODEL_REGISTRY.values())}  # fmt: skip
    assert READ - set(named) <= {"transformer.transformer_base.TransformerModelBase"}
    for name in READ & set(named):
        for base in named[name].__mro__:
            if base.__module__.startswith("fairseq.models."):
                known = EMPTIED.get(base.__module__.removeprefix("fairseq.models."), set())
                assert opening(base.__module__) <= known, base
    assert opening("fairseq.models.wav2vec.wav2vec2_asr")  # the search can find
