"""Which architectures are built from a checkpoint: all for stock fairseq, known ones for us."""

import argparse
import ast
import importlib
import inspect
import json
import os
import pathlib
import subprocess

import fairseq
import pytest
import torch
from every_architecture import make_task, write
from fairseq import checkpoint_utils, models
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from in_process import hypotheses, run_here
from settings_payloads import with_settings

from fairseq_specdec.checkpoints.architectures import (
    READ,
    VARIABLE,
    building_from,
    known_architectures_only,
)
from fairseq_specdec.checkpoints.settings import RefusedCheckpointError
from fairseq_specdec.config import TranslationSpecDecConfig
from fairseq_specdec.hub import SpeculativeTranslator
from fairseq_specdec.tasks.translation_specdec import TranslationSpecDecTask

SCRIPT = pathlib.Path(__file__).with_name("every_architecture.py")
# Of fairseq 0.12.3; no fewer may be looked at.
CLASSES = {
    "BARTModel", "CMLMNATransformerModel", "FConvLanguageModel", "FConvModel",
    "FConvModelSelfAtt", "InsertionTransformerModel", "IterNATransformerModel", "LSTMLanguageModel",
    "LSTMModel", "LevenshteinTransformerModel", "LightConvModel", "MaskedLMModel",
    "NACRFTransformerModel", "NATransformerModel", "RobertaEncDecModel", "RobertaModel",
    "TransformerAlignModel", "TransformerLanguageModel", "TransformerModel", "XMODModel",
}  # fmt: skip


broken_stock = pytest.mark.skipif(
    fairseq.__version__ == "0.12.2", reason="its encoders fail without the plugin: issue 4899"
)


def printed_by(python, folder, *flags):
    """What ``every_architecture.py`` prints in a process that has not imported the plugin."""
    # Stock fairseq cannot read its own checkpoints by torch >= 2.6 otherwise.
    environment = dict(os.environ, TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD="1", OMP_NUM_THREADS="1")
    words = [str(python), str(SCRIPT), str(folder), *flags]
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@broken_stock
def test_the_import_changes_no_architecture_of_stock_fairseq(warm_python, tmp_path):
    """Each class is loaded with fairseq's own task, and decoded: LSTM, convolutions, alignment."""
    without = printed_by(warm_python.python, tmp_path)
    assert {facts.get("class") for facts in without.values()} - {None} == CLASSES
    assert sum("hypotheses" in facts for facts in without.values()) >= 11
    assert printed_by(warm_python.python, tmp_path, "--plugin") == without


@pytest.fixture(scope="module")
def fconv(reversal_data, tmp_path_factory):
    """A checkpoint of fairseq-train with one update."""
    folder = tmp_path_factory.mktemp("fconv")
    run_here(
        "train", reversal_data, task="translation", optimizer="adam", max_update=1, arch="fconv",
        criterion="cross_entropy", batch_size=8, encoder_layers="[(16, 3)] * 2",
        decoder_layers="[(16, 3)]", encoder_embed_dim=8, decoder_embed_dim=8,
        decoder_out_embed_dim=8, save_dir=folder, disable_validation=True, data_buffer_size=0,
    )  # fmt: skip
    return str(folder / "checkpoint_last.pt")


def test_a_convolutional_model_decodes_with_the_stock_task(fconv, reversal_data):
    out, _ = run_here("generate", reversal_data, task="translation", path=fconv, beam=2)
    assert len(hypotheses(out)) == 100


def decode(data, path, **flags):
    run_here("generate", data, task="translation_specdec", path=path, beam=1, **flags)


def line(capsys, act, *arguments, **named):
    """The one line that ends a command."""
    with pytest.raises((SystemExit, ValueError)) as caught:
        act(*arguments, **named)
    message = str(caught.value)
    if isinstance(caught.value, SystemExit) and caught.value.code in (1, 2):
        message = capsys.readouterr().err.strip().splitlines()[-1]
    assert "\n" not in message
    return message


def test_our_task_names_a_model_that_it_does_not_decode(fconv, reversal_data, capsys):
    for act, given in (
        (decode, (str(reversal_data), fconv)),
        (SpeculativeTranslator.from_pretrained, (fconv, None, str(reversal_data))),
    ):
        message = line(capsys, act, *given)
        assert "holds a FConvModel" in message and "fairseq's Transformers only" in message


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
    with building_from("a.pt"):
        assert build("foreign", make_task()) == "built"
    assert build("foreign", our_task()) == "built"  # from the command line
    for task, guard in (
        (our_task(), building_from("x")),
        (make_task(), known_architectures_only()),
    ):
        with building_from("a.pt"), guard, building_from("b.pt"):
            with pytest.raises(RefusedCheckpointError, match=f"^b.pt: .* set {VARIABLE}=foreign"):
                build("foreign", task)
        with building_from("a.pt"):
            assert build("foreign", make_task()) == "built"  # the limit ends with the reading


def test_trusted_architectures_are_built_for_us(monkeypatch):
    monkeypatch.setitem(ARCH_MODEL_REGISTRY, "foreign", Foreign)
    monkeypatch.setenv(VARIABLE, "other, foreign")
    with building_from("a.pt"):
        assert build("foreign", our_task()) == "built"
    monkeypatch.setenv(VARIABLE, "foreigner")
    with building_from("a.pt"), pytest.raises(RefusedCheckpointError):
        build("foreign", our_task())


@pytest.mark.parametrize("arch", ["wav2vec_ctc", "fconv_self_att", "roberta_enc_dec"])
def test_models_that_open_other_files_are_not_built_for_us(arch):
    with building_from("a.pt"), known_architectures_only():
        with pytest.raises(RefusedCheckpointError, match="open files that they name"):
            build(arch, make_task())


@pytest.mark.parametrize("arch", ["fconv", "lightconv", "cmlm_transformer", "transformer_lm"])
def test_known_models_of_stock_tasks_are_built_for_us(arch, tmp_path):
    path = str(tmp_path / "a.pt")
    write(arch, path, make_task())
    with known_architectures_only():
        (model,), _ = checkpoint_utils.load_model_ensemble([path], task=make_task())
    assert type(model) is ARCH_MODEL_REGISTRY[arch]


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
    classes = set(ARCH_MODEL_REGISTRY.values()) | set(MODEL_REGISTRY.values())
    named = {f"{kind.__module__}.{kind.__qualname__}": kind for kind in classes}
    known = {"fairseq.models." + name for name in READ}
    missing = known - set(named)
    assert missing <= {"fairseq.models.transformer.transformer_base.TransformerModelBase"}
    for name in known - missing:
        for base in named[name].__mro__:
            if base.__module__.startswith("fairseq.models."):
                opened = opening(importlib.import_module(base.__module__))
                assert opened <= EMPTIED.get(base.__module__, set()), base
    others = {n for n in named if n.startswith("fairseq.") and n not in known}
    openers = {name for name in others if opening(importlib.import_module(named[name].__module__))}
    assert "fairseq.models.wav2vec.wav2vec2_asr.Wav2VecCtc" in openers  # the search can find


def test_building_from_the_command_line_is_no_business_of_the_list(reversal_data, tmp_path):
    """Training an architecture that is not on the list goes on as before."""
    run_here(
        "train", reversal_data, task="translation", optimizer="adam", max_update=1,
        arch="fconv_iwslt_de_en", criterion="cross_entropy", batch_size=8,
        encoder_layers="[(16, 3)] * 2", decoder_layers="[(16, 3)]", encoder_embed_dim=8,
        decoder_embed_dim=8, decoder_out_embed_dim=8, save_dir=tmp_path / "fconv",
        disable_validation=True, no_save=True,
    )  # fmt: skip
