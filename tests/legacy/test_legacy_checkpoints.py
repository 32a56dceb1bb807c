"""The authors' checkpoints load unmodified, and so do verifiers of every fairseq style."""

import argparse
import copy

import pytest
import torch
from authors_layout import (
    BLOCK,
    SETTINGS,
    UNK,
    authors_checkpoint,
    authors_drafter,
    logits_of,
    same_weights,
)
from fairseq import checkpoint_utils
from fairseq.models import ARCH_CONFIG_REGISTRY
from settings_payloads import config_of
from toy_hypotheses import open_on, rows_of
from toy_translation import (
    EOS,
    PAD,
    dictionary,
    ids,
    make_sample,
    make_task,
    sentences,
    toy_model,
    translate,
)

from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding import builder, drafter_file
from fairseq_specdec.drafting import DraftOptions, NarBlockDrafter
from fairseq_specdec.models.legacy_drafter import LegacyDrafter, legacy_config

SOURCES = sentences(6, seed=5)


def saved(state, tmp_path, name="checkpoint.pt"):
    path = tmp_path / name
    torch.save(state, path)
    return str(path)


@pytest.mark.parametrize(
    "copied, as_namespace, arch",
    [(True, True, "block"), (True, False, "block_base"), (False, False, "block_6e6d512")],
)
def test_an_authors_drafter_loads(copied, as_namespace, arch, tmp_path):
    model, named = authors_drafter(copied), {"arch": arch, "_name": arch}
    state = authors_checkpoint(model, as_namespace, src_embedding_copy=copied, **named)
    assert ("decoder.copy_attn.weight" in state["model"]) == copied
    assert not any(name.startswith("decoder.source_copy") for name in state["model"])
    words = dictionary()
    loaded = drafter_file.load_drafter(saved(state, tmp_path), words, words)
    assert isinstance(loaded, LegacyDrafter) and same_weights(loaded, model)
    assert loaded.encoder.embed_scale == 1.0, "their drafter scales no embedding"
    assert loaded.decoder.block_size == SETTINGS["block_size"]


def test_their_task_name_is_known(tmp_path):
    """fairseq's own loader sets the checkpoint's task up; its dictionaries are the user's."""
    words = dictionary()
    for language in ("en", "de"):
        words.save(str(tmp_path / f"dict.{language}.txt"))
    path = saved(authors_checkpoint(authors_drafter(), True), tmp_path)
    models, _, task = checkpoint_utils.load_model_ensemble_and_task(
        [path], arg_overrides={"data": str(tmp_path)}
    )
    assert isinstance(models[0], LegacyDrafter)
    assert type(task).__name__ == "TranslationLevModifiedTask" and task.cfg.strategy == "greedy"


@pytest.mark.parametrize("name", ["layernorm_embedding", "chain_width"])
def test_settings_that_no_such_drafter_has_are_refused(name):
    args = argparse.Namespace(**dict(SETTINGS, **{name: 1}))
    ARCH_CONFIG_REGISTRY["block"](args)
    with pytest.raises(ValueError, match="--" + name.replace("_", "-")):
        legacy_config(args)


@pytest.mark.parametrize("copied", [True, False])
@torch.no_grad()
def test_drafts_what_the_plain_pass_predicts(copied):
    model, sources = authors_drafter(copied, updates=40), sentences(16, seed=77)
    accepted = [ids(translate(words))[: row % 5] for row, words in enumerate(sources)]
    for known in accepted:
        if len(known) == 3:
            known[1] = UNK  # a real one is a mask like any other
    drafter = NarBlockDrafter(model, DraftOptions(BLOCK, PAD, EOS))
    draft = open_on(drafter, sources, 28).propose(rows_of(accepted, 30))
    for row, (words, known) in enumerate(zip(sources, accepted)):
        logits = logits_of(model, torch.tensor([ids(words)]), torch.tensor([known]).long())
        logits[..., PAD] = float("-inf")
        assert draft.tokens[row].tolist() == logits[0].argmax(-1).tolist(), row


def verifier_settings():
    cfg = toy_model().cfg
    shape = {
        f"{side}_{name}": getattr(getattr(cfg, side), name)
        for side in ("encoder", "decoder")
        for name in ("embed_dim", "ffn_embed_dim", "attention_heads", "layers")
    }
    return dict(
        shape, arch="transformer", task="translation", criterion="cross_entropy", data=".",
        optimizer="adam", lr_scheduler="fixed", share_all_embeddings=True, dropout=0.0,
        max_source_positions=64, max_target_positions=64, source_lang="en", target_lang="de",
    )  # fmt: skip


def verifier_checkpoint(style):
    """The toy verifier as a release of fairseq would have saved it, as far as decoding can tell."""
    weights = copy.deepcopy(dict(toy_model().state_dict()))
    history = [{"num_updates": 1, "optimizer_name": "Adam", "lr_scheduler_state": {}}]
    state = {"model": weights, "optimizer_history": history}
    state.update(extra_state={"train_iterator": {"epoch": 1}}, last_optimizer_state=None)
    settings = verifier_settings()
    if style == "0.9":
        # The output layer had no module of its own, and the rate was a number.
        del weights["decoder.output_projection.weight"]
        old = argparse.Namespace(**dict(settings, lr=[0.001], min_lr=1e-9, remove_bpe=None))
        return dict(state, args=old)
    if style == "0.10":
        return dict(state, args=argparse.Namespace(**dict(settings, lr=[0.001])), cfg=None)
    settings["_name"] = "transformer"
    task = {"_name": "translation", "data": ".", "source_lang": "en", "target_lang": "de"}
    if style == "1.0.0a0":
        parts = {"task": task, "model": argparse.Namespace(**settings)}
        return dict(state, args=None, cfg=config_of(parts), optimizer_history=[])
    if style == "0.12, command line":
        return dict(state, args=None, cfg={"task": task, "model": argparse.Namespace(**settings)})
    model = {"_name": "transformer", "base_layers": 0, "share_all_embeddings": True}
    for side in ("encoder", "decoder"):
        model[side] = {
            name[len(side) + 1 :]: value
            for name, value in settings.items()
            if name.startswith(side + "_")
        }
    model.update(max_source_positions=64, max_target_positions=64)
    return dict(state, args=None, cfg={"task": task, "model": model})


STYLES = ["0.9", "0.10", "1.0.0a0", "0.12, command line", "0.12, hydra"]
# What a strategy of each kind drafts with; others share their readers.
STRATEGIES = {"greedy": None, "gad": "block", "sps": "small"}


@pytest.mark.parametrize("style", STYLES)
def test_a_verifier_of_each_style_decodes(style, tmp_path):
    words, task = dictionary(), make_task()
    path = saved(verifier_checkpoint(style), tmp_path)
    models, _ = checkpoint_utils.load_model_ensemble([path], task=task)
    assert same_weights(models[0].eval(), toy_model())
    drafter = authors_checkpoint(authors_drafter())
    files = {None: None, "small": path, "block": saved(drafter, tmp_path, "drafter.pt")}
    sample = make_sample(SOURCES)
    args = argparse.Namespace(max_len_a=0, max_len_b=30)
    reference = builder.build_generator(
        [toy_model()], words, words, args, decoding_settings()
    ).generate([toy_model()], sample)
    for strategy, kind in STRATEGIES.items():
        settings = decoding_settings(strategy=strategy, drafter_path=files[kind])
        generator = builder.build_generator(models, words, words, args, settings)
        for ours, theirs in zip(generator.generate(models, sample), reference):
            assert ours[0]["tokens"].tolist() == theirs[0]["tokens"].tolist(), strategy
