"""Which architectures are built from a checkpoint: all for stock fairseq, known ones for us."""

import argparse
import ast
import importlib
import inspect

import pytest
import torch
from every_architecture import architectures, make_task, write
from fairseq import checkpoint_utils, models
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from in_process import hypotheses, run_here
from settings_payloads import with_settings

from fairseq_specdec.checkpoints.architectures import READ, VARIABLE
from fairseq_specdec.checkpoints.reading import reading
from fairseq_specdec.checkpoints.settings import RefusedCheckpointError
from fairseq_specdec.config import TranslationSpecDecConfig
from fairseq_specdec.hub import SpeculativeTranslator
from fairseq_specdec.tasks.translation_specdec import TranslationSpecDecTask

# Of fairseq 0.12.3; no fewer may be looked at.
CLASSES = {
    "BARTModel", "CMLMNATransformerModel", "FConvLanguageModel", "FConvModel",
    "FConvModelSelfAtt", "InsertionTransformerModel", "IterNATransformerModel", "LSTMLanguageModel",
    "LSTMModel", "LevenshteinTransformerModel", "LightConvModel", "MaskedLMModel",
    "NACRFTransformerModel", "NATransformerModel", "RobertaEncDecModel", "RobertaModel",
    "TransformerAlignModel", "TransformerLanguageModel", "TransformerModel", "XMODModel",
}  # fmt: skip


def kind_of(model):
    return f"{model.__module__}.{model.__qualname__}".removeprefix("fairseq.models.")


def test_every_architecture_of_fairseq_is_read_as_it_was_written(tmp_path):
    task, read = make_task(), set()
    for arch in architectures():
        path = str(tmp_path / f"{arch}.pt")
        try:
            weights = write(arch, path, task)
        except Exception:  # of another task
            continue
        known = ARCH_MODEL_REGISTRY[arch]
        with reading(ours=kind_of(known) in READ):
            (model,), _ = checkpoint_utils.load_model_ensemble([path], task=task)
        state = model.state_dict()
        assert weights.keys() == state.keys()
        assert all(torch.equal(state[name], weight) for name, weight in weights.items()), arch
        read.add(type(model).__name__)
    assert read == CLASSES


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
OPENING = {
    "load_checkpoint_to_cpu", "load_model_ensemble", "load_model_ensemble_and_task",
    "load_pretrained_component_from_model", "load", "open", "urlopen", "cached_path", "exec",
    "compile", "system", "Popen", "import_module", "__import__", "get_from_cache",
}  # fmt: skip


# By module, what opens the file of a setting that is emptied beforehand.
EMPTIED = {
    "fairseq.models.speech_to_text.s2t_transformer": {"load_pretrained_component_from_model"}
}


def opening(module):
    """Names of ``OPENING`` that a module calls."""
    called = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Call):
            called.add(getattr(node.func, "attr", getattr(node.func, "id", "")))
    return called & OPENING


def test_what_is_built_for_us_opens_no_file():
    """The modules of fairseq that define these models, their base classes and what they import."""
    named = {
        kind_of(each): each for each in (*ARCH_MODEL_REGISTRY.values(), *MODEL_REGISTRY.values())
    }
    assert READ - set(named) <= {"transformer.transformer_base.TransformerModelBase"}
    for name in READ & set(named):
        for base in named[name].__mro__:
            if base.__module__.startswith("fairseq.models."):
                opened = opening(importlib.import_module(base.__module__))
                assert opened <= EMPTIED.get(base.__module__, set()), base
    speech = named["wav2vec.wav2vec2_asr.Wav2VecCtc"]  # the search can find
    assert opening(importlib.import_module(speech.__module__))
