"""The task from Python and in training, and its flags beside fairseq's own."""

import dataclasses
import re
from argparse import Namespace

import pytest
import torch
from attempts import SENTENCES
from fairseq import checkpoint_utils, options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models.transformer import TransformerModel
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from in_process import PLUGIN, command_line, hypotheses, lines_of, run_here
from toy_translation import assert_diverse

from fairseq_specdec.config import TranslationSpecDecConfig
from fairseq_specdec.decoding import builder
from fairseq_specdec.decoding.generator import SpeculativeGenerator
from fairseq_specdec.decoding.strategies import gad
from fairseq_specdec.engine.memory import packed_source
from fairseq_specdec.engine.native.library import load
from fairseq_specdec.tasks.translation_specdec import TranslationSpecDecTask

OURS = {
    field.name: field.default
    for field in dataclasses.fields(TranslationSpecDecConfig)
    if field.name not in TranslationConfig.__dataclass_fields__
}


@pytest.fixture(scope="module")
def expected(toy):
    """(source lines, the words that stock beam 1 makes of each)."""
    out, _ = run_here("generate", toy.data, task="translation", path=toy.v, beam=1, batch_size=16)
    sources, outputs = lines_of("S", out), hypotheses(out)
    numbers = [str(i) for i in range(SENTENCES)]
    return [sources[i] for i in numbers], [" ".join(outputs[i][0]) for i in numbers]


def hub(toy, **task):
    """A kept checkpoint names the folder of the run that trained it: ``task`` names this one."""
    folder, name = toy.v.rsplit("/", 1)
    task.update(_name="translation_specdec", data=str(toy.data))
    return TransformerModel.from_pretrained(folder, name, str(toy.data), task=task)


def test_the_hub_takes_a_task_in_both_forms(toy):
    folder, name = toy.v.rsplit("/", 1)
    forms = ["translation_specdec", {"_name": "translation_specdec", "strategy": "iad"}]
    for task in [*forms, None, "translation", "no_task"]:
        given = {} if task is None else {"task": task}
        model = TransformerModel.from_pretrained(folder, name, str(toy.data), **given)
        assert isinstance(model.task, TranslationSpecDecTask) == (task in forms)
        assert model.task.cfg.data == str(toy.data) or task not in forms
    model = TransformerModel.from_pretrained(folder, name, str(toy.data), task=forms[1])
    assert model.task.cfg.strategy == "iad"


@pytest.mark.parametrize("strategy", ["greedy", "gad"])
def test_models_ready_to_decode_give_their_weights_away(toy, expected, strategy, monkeypatch):
    assert_diverse([line.split() for line in expected[1]])
    model = hub(toy, strategy=strategy, drafter_path=toy.d if strategy == "gad" else None)
    for _ in range(2):
        assert model.translate(expected[0], beam=1) == expected[1]
    freed = [p for p in model.parameters() if packed_source(p)]
    assert bool(freed) == (load() is not None)
    # fairseq's own search still finds its weights.
    task = TranslationTask(model.task.cfg, model.task.src_dict, model.task.tgt_dict)
    monkeypatch.setattr(model, "task", task)
    assert model.translate(expected[0], beam=1) == expected[1]


@pytest.mark.parametrize("kept", [False, True])
def test_a_decoded_model_is_saved_with_its_weights(toy, expected, kept):
    model = hub(toy)
    wanted = {name: value.clone() for name, value in model.models[0].state_dict().items()}
    assert model.translate(expected[0][:2], beam=1, keep_weights=kept) == expected[1][:2]
    state = model.models[0].state_dict()
    assert all(torch.equal(state[name], value) for name, value in wanted.items())


def test_hub_arguments_win_over_the_task(toy, expected, monkeypatch):
    model = hub(toy)
    loads, load = [], gad.load_drafter
    monkeypatch.setattr(gad, "load_drafter", lambda *a: loads.append(a) or load(*a))
    seen, build = [], builder.build_generator
    monkeypatch.setattr(
        builder, "build_generator", lambda *a, **k: seen.append(build(*a, **k)) or seen[-1]
    )
    for _ in range(2):
        flags = {"strategy": "gad", "drafter_path": toy.d, "block_size": 2, "draft_budget": 0}
        assert model.translate(expected[0][:8], beam=1, **flags) == expected[1][:8]
    assert [generator.strategy for generator in seen] == ["gad", "gad"]
    assert seen[0].drafter.block_size == 2 and seen[0].stats.drafted > 0
    assert len(loads) == 1, "the drafter was read again for the second call"


def test_a_bare_namespace(toy):
    models, _, task = checkpoint_utils.load_model_ensemble_and_task(
        [toy.v], arg_overrides={"task": {"_name": "translation_specdec", "data": str(toy.data)}}
    )
    generator = task.build_generator(models, Namespace())
    assert isinstance(generator, SpeculativeGenerator)
    assert generator.strategy == "greedy"
    bare = Namespace(strategy="gad", drafter_path=toy.d, max_len_b=7)
    generator = task.build_generator(models, bare)
    assert (generator.strategy, generator.max_len_b) == ("gad", 7)
    assert generator.drafter.block_size == 4
    extra = {"eos": 5, "symbols_to_strip_from_output": {7}}
    generator = task.build_generator(models, bare, extra_gen_cls_kwargs=extra)
    assert (generator.policy.eos, generator.symbols_to_strip_from_output) == (5, {5, 7})
    with pytest.raises(ValueError, match="--block-size 9"):
        task.build_generator(models, Namespace(**dict(vars(bare), block_size=9)))
    with pytest.raises(ValueError, match="prefix_allowed_tokens_fn"):
        task.build_generator(models, bare, prefix_allowed_tokens_fn=print)
    with pytest.raises(ValueError, match="holds a Module with decoder NoneType"):
        task.build_generator([torch.nn.Module()], Namespace())


def test_bleu_while_training_follows_the_weights(toy, other):
    folder, log = other
    logged = [float(x) for x in re.findall(r"valid on 'valid' subset.*?\| bleu ([\d.]+)", log)]
    assert len(logged) == 2 and logged[0] != logged[1]
    for updates, bleu in zip((100, 200), logged):
        out, _ = run_here(
            "generate", toy.data, task="translation", path=folder / f"checkpoint_1_{updates}.pt",
            gen_subset="valid", beam=1, max_len_b=20, scoring="sacrebleu",
        )  # fmt: skip
        stock = float(re.search(r"BLEU\S* = ([\d.]+)", out).group(1))
        assert bleu == pytest.approx(stock, abs=0.011)


class Listener:
    """A generator that writes down how many sentences a full batch has."""

    def generate(self, models, sample, **more):
        self.given_size = sample["batch_size"]


@pytest.mark.parametrize(
    "limits, full",
    [
        ({"max_sentences": 5}, 5),
        ({"max_sentences": 5, "max_tokens": 9999}, 5),
        ({"max_tokens": 320}, 10),
        ({"max_tokens": 60}, 1),
    ],
)
def test_the_generator_is_given_the_size_of_a_full_batch(toy, limits, full):
    task, listener = hub(toy).task, Listener()
    task.load_dataset("test")
    batches = task.get_batch_iterator(task.dataset("test"), **limits)
    for sample in batches.next_epoch_itr(shuffle=False):
        task.inference_step(listener, [], sample)
        assert listener.given_size == full


def parsed(parser, *words):
    flags = ["data", "--user-dir", PLUGIN, "--task", "translation_specdec", *words]
    return convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, flags))


@pytest.mark.parametrize("command", ["generate", "interactive", "train"])
def test_flags_keep_their_defaults_and_arrive(command):
    def parser():
        if command == "train":
            return options.get_training_parser()
        if command == "interactive":
            return options.get_interactive_generation_parser()
        made = options.get_generation_parser()
        # as fairseq_cli.generate does, which adds that model's flags to the line
        made.add_argument("--arch", "-a", default="wav2vec2")
        return made

    needed = ["--path", "x"]
    if command == "train":
        needed = ["--arch", "transformer", "--optimizer", "adam", "--lr", "1"]
    task = parsed(parser(), *needed).task
    assert {name: task[name] for name in OURS} == OURS
    given = {"strategy": "gad", "drafter_path": "d.pt", "block_size": 7, "top_beta": 5, "tau": 2.5}
    task = parsed(parser(), *needed, *command_line(**given)).task
    assert {name: task[name] for name in given} == given


def test_a_drafter_keeps_its_own_block_size_under_this_task():
    """--block-size is a flag of the drafter's architecture as well."""
    words = ["--arch", "spec_drafter_tiny", "--criterion", "glancing_block_loss"]
    words += ["--optimizer", "adam", "--lr", "1"]
    assert parsed(options.get_training_parser(), *words).model.block_size == 25
    words += ["--block-size", "6"]
    assert parsed(options.get_training_parser(), *words).model.block_size == 6
