"""Every strategy through fairseq-generate: all lines that it prints are those that stock prints.

Models and drafters are trained by fairseq-train's own command line.
"""

import functools
import os
import re
import shutil

import pytest
import torch
from attempts import SENTENCES, SUMMARY, accepted, assert_same, generate, printed, words_of
from in_process import PLUGIN, SHAPE, hypotheses, lines_of
from toy_translation import assert_diverse

SMALL = {"arch": "transformer", "criterion": "cross_entropy", "disable_validation": True}
HEADS = {"arch": "blockwise_transformer_tiny", "criterion": "blockwise_loss", "block_size": 3}
EXIT = {"arch": "early_exit_transformer", "exit_layer": 1, "criterion": "early_exit_loss"}
NO_SMOOTHING = {"label_smoothing": 0.0, "dropout": 0.0}
WHOLE = {"draft_budget": 0}
BEAM = {"beam": 5, "nbest": 5, "batch_size": 8}
LENGTHS = {"lenpen": 0.2, "min_len": 9, "nbest": 2}


@pytest.fixture(scope="module")
def trained(toy, other, train_here, tmp_path_factory):
    """(path, log of the training) of a model by its name."""

    @functools.cache
    def of(name):
        if name in ("v", "d"):
            return getattr(toy, name), ""
        if name == "other":
            return str(other[0] / "checkpoint_last.pt"), other[1]
        if name == "small":
            flags = {**SMALL, **SHAPE, "decoder_layers": 1, "max_update": 120}
        elif name == "exit":
            flags = {**EXIT, **SHAPE, "finetune_from_model": toy.v, "label_smoothing": 0.0}
            flags.update(max_update=60, validate_interval_updates=60)
        elif name == "heads":  # on a verifier whose file is gone by now
            base = tmp_path_factory.mktemp("base") / "verifier.pt"
            shutil.copy(toy.v, str(base))
            flags = {**HEADS, **NO_SMOOTHING, "init_from": base, "freeze_base": True}
            flags.update(max_update=150, max_epoch=1, validate_interval_updates=150)
        else:
            flags = {"arch": "attached_drafter_tiny", "criterion": "glancing_block_loss"}
            flags.update(attach_to=toy.v, init_decoder_from=toy.v, encoder_embed_dim=32)
            flags.update(encoder_ffn_embed_dim=64, encoder_attention_heads=4, chain_width=16)
            flags.update(decoder_attention_heads=8, block_size=4, num_cuts=4, dropout=0.0)
            flags.update(glancing_start=0.0, glancing_stop=0.0, max_update=160)
            flags.update(eval_verifier=toy.v, eval_sentences=60, validate_interval_updates=160)
        folder, log = train_here(task="translation", keep=True, **flags)
        if name == "heads":
            base.unlink()
        return str(folder / "checkpoint_last.pt"), log

    return of


@pytest.fixture(scope="module")
def decode(toy, trained):
    """(stdout, log) of fairseq-generate with models by name, joined by +; each run once."""

    @functools.cache
    def run(path, drafter, flags):
        given = dict(flags)
        if drafter:
            given["drafter_path"] = trained(drafter)[0]
        models = os.pathsep.join(trained(name)[0] for name in path.split("+"))
        return generate(toy, path=models, **given)

    def decoded(path="v", drafter=None, **flags):
        return run(path, drafter, tuple(sorted(flags.items())))

    return decoded


# Models, strategy, drafter, flags of both, flags of ours alone, fewest accepted tokens.
EXACT = [
    ("v", "greedy", None, {}, {}, 1.0),
    ("v", "iad", None, {"min_len": 9, "no_repeat_ngram_size": 2}, {}, 1.0),
    ("v", "gad", "d", {}, WHOLE, 1.1),
    ("v", "gad", "d", {"prefix_size": 2}, {}, 1.0),
    ("v", "gad", "d", {}, {"task": "translation_lev_modified"}, 1.0),
    ("v", "gad", "attached", {}, WHOLE, 1.2),
    ("v", "sps", "other", {}, {"block_size": 7, "drafter_dtype": "bf16"}, 1.2),
    ("v", "bild", "small", {}, {"alpha_rb": 0}, 1.0),
    ("exit", "bild-early-exit", None, {}, {"alpha_rb": 0}, 1.0),
    ("heads", "blockwise", None, {}, WHOLE, 1.1),
    ("v+other", "gad", "d", {}, {}, 1.0),
    ("v", "greedy", None, BEAM, {}, 1.0),
    ("v", "iad", None, {**BEAM, "prefix_size": 2}, {}, 1.0),
    ("v", "none", None, {**BEAM, **LENGTHS}, {}, 1.0),
    ("v", "gad", "d", BEAM, {}, 1.0),
    ("v", None, None, {**BEAM, "nbest": 1}, {"beam": None}, 1.0),  # stock's default is 5, too
    ("v", "greedy", None, {"seed": 3, "sampling": True}, {}, 1.0),
]


def test_a_file_of_drafts_changes_the_time_alone(decode, toy, tmp_path):
    out, log = decode(strategy="greedy")
    said = words_of(out)
    file = tmp_path / "drafts"
    file.write_text("".join(" ".join(said[i]) + "\n" for i in range(SENTENCES)))
    again, faster = decode(strategy="given", draft_file=str(file), draft_budget=0)
    assert_same(again, out, SENTENCES)
    assert accepted(faster) > 3 * accepted(log)
    file.write_text("w1")
    with pytest.raises(Exception, match="--draft-file: .*drafts has no line"):
        decode(strategy="given", draft_file=str(file))


@pytest.mark.parametrize("path, strategy, drafter, flags, own, least", EXACT, ids=str)
def test_prints_what_stock_prints(decode, path, strategy, drafter, flags, own, least):
    reference, _ = decode(path, task="translation", **flags)
    out, log = decode(path, drafter, strategy=strategy, **{**flags, **own})
    assert_same(out, reference, SENTENCES * flags.get("nbest", 1))
    assert_diverse(words_of(reference).values())
    assert "cannot be honoured" not in log and (least == 1.0 or accepted(log) > least)
    changing = {"prefix_size", "min_len", "sampling"} & set(flags)
    plain = {name: value for name, value in flags.items() if name in BEAM}
    same = printed(reference) == printed(decode(path, task="translation", **plain)[0])
    assert same != bool(changing), "the flag changed nothing"


@pytest.mark.parametrize("strategy", ["greedy", "gad++"])
def test_steps_histories_and_the_summary_agree(decode, strategy):
    drafter = "d" if strategy == "gad++" else None
    flags = {"print_step": True, "retain_iter_history": True, **WHOLE}
    flags = flags if strategy != "greedy" else {**flags, "draft_budget": None}
    out, log = decode("v", drafter, strategy=strategy, **flags)
    name, sentences, iterations, each, mean, _, drafted = SUMMARY.search(log).groups()
    steps = {number: int(step) for number, step in lines_of("I", out).items()}
    assert (name, int(sentences), sum(steps.values())) == (strategy, len(steps), int(iterations))
    found, history = hypotheses(out), lines_of("E", out)
    emitted = sum(len(words) + 1 for words, _, _ in found.values())
    assert float(mean) == pytest.approx(emitted / int(iterations), abs=0.006)
    assert float(each) == pytest.approx(int(iterations) / SENTENCES, abs=0.006)
    drafts = 0
    for number, (words, _, _) in found.items():
        assert f"{number}_{2 * steps[number]}" not in history
        rounds = [history[f"{number}_{i}"].split() for i in range(2 * steps[number])]
        assert sum(rounds[1::2], []) == words
        drafts += sum(map(len, rounds[::2]))
    assert (drafts > 0) == (strategy != "greedy") == (int(drafted) > 0)


def test_as_a_user_runs_it(toy, decode, tmp_path, fairseq_command):
    """A process of its own, drafting: the same output, and the summary once. With
    ``--results-path`` fairseq may log to that file, closed before the process ends."""
    _, log = fairseq_command(
        "generate", toy.data, "--user-dir", PLUGIN, "--task", "translation_specdec", "--path",
        toy.v, "--beam", 1, "--batch-size", 16, "--cpu", "--strategy", "gad", "--drafter-path",
        toy.d, "--block-size", 4, "--results-path", tmp_path,
    )  # fmt: skip
    assert "Logging error" not in log
    text = (tmp_path / "generate-test.txt").read_text(encoding="utf-8")
    assert_same(text, decode(task="translation")[0], SENTENCES)
    assert [match[1] for match in SUMMARY.findall(text + log)] == [str(SENTENCES)]


def test_heads_report_each_and_take_a_verifier_over(trained):
    path, log = trained("heads")
    assert "--init-from" in log and "its shape and all its weights taken over" in log
    valid = [line for line in log.splitlines() if "valid on 'valid' subset" in line][-1]
    assert all(f"head_{head}_accuracy" in valid for head in (1, 2, 3))
    assert float(re.search(r"accepted[ |]+([\d.]+)", valid).group(1)) > 1.1
    model = torch.load(path, weights_only=False)["cfg"]["model"]
    assert model.init_from is None and model.freeze_base is True


def test_an_early_exit_starts_from_a_plain_checkpoint(toy, trained):
    path, log = trained("exit")
    assert "exit_nll_loss" in log and "agreement" in log
    plain, ours = (torch.load(each, weights_only=False)["model"] for each in (toy.v, path))
    name = "decoder.layers.1.fc1.weight"
    assert plain.keys() == ours.keys()
    assert (ours[name] - plain[name]).norm() < 0.5 * plain[name].norm()


def test_an_attached_drafter_holds_no_verifier_and_fits_its_own(toy, trained, train_here):
    path, log = trained("attached")
    assert float(re.findall(r"accepted_tokens ([\d.]+)", log)[-1]) > 1.2
    state = torch.load(path, weights_only=False)
    assert all(name.startswith("decoder.") for name in state["model"])
    assert state["cfg"]["model"].attach_to is None
    for shape, message in (
        ({"encoder_embed_dim": 16, "decoder_layers": 2}, "16 wide"),
        ({"encoder_embed_dim": 32, "decoder_layers": 1}, "has 1 decoder layers"),
    ):
        folder, _ = train_here(
            task="translation", max_update=1, encoder_ffn_embed_dim=16, encoder_attention_heads=2,
            encoder_layers=1, share_all_embeddings=True, keep=True, **SMALL, **shape,
        )  # fmt: skip
        with pytest.raises(ValueError, match=f"trained with.*{message}|{message}.*trained with"):
            generate(toy, path=folder / "checkpoint_last.pt", strategy="gad", drafter_path=path)
