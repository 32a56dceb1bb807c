"""The steps of scripts/blockwise: which models they train and decode with, and how."""

import json

import pytest

DEFAULT = [
    "original/frozen_4", "original/tuned_4", "distilled/frozen_4", "distilled/tuned_4",
    "distilled/frozen_8", "distilled/tuned_8",
]  # fmt: skip
TRAINED = {
    "--arch": "blockwise_transformer", "--init-from": "$WORK/verifier/verifier.pt",
    "--criterion": "blockwise_loss", "--label-smoothing": "0", "--first-head": "identity",
    "--max-update": "1500", "--max-tokens": "4096",
}  # fmt: skip
DECODED = {
    "--strategy": "blockwise", "--batch-size": "1", "--beam": "1", "--gen-subset": "test",
    "--max-len-b": "60",
}  # fmt: skip


def values(words):
    """The value of each flag."""
    return {flag: value for flag, value in zip(words, words[1:]) if flag.startswith("--")}


def test_each_model_is_trained_as_its_name_says(printed):
    commands = printed("blockwise", "01_heads")
    trained = [words for words in commands if words[0] == "fairseq-train"]
    # Trained, averaged, and the frozen base put back.
    assert len(commands) == len(DEFAULT) * 2 + sum("frozen" in name for name in DEFAULT)
    for model, words in zip(DEFAULT, trained):
        corpus, way, k = model.replace("_", "/").split("/")
        folder = {"original": "ende", "distilled": "ende_distilled"}[corpus]
        rate = {"frozen": "1e-3", "tuned": "1e-4"}[way]
        own = {"--save-dir": f"$WORK/blockwise/{model}", "--block-size": k, "--lr": rate}
        start = f"$WORK/blockwise/{corpus}/frozen_{k}/model.pt"  # tuned: from the frozen one
        own.update({"--finetune-from-model": start} if way == "tuned" else {})
        assert words[1] == f"$WORK/bin/{folder}"
        assert {**TRAINED, **own}.items() <= values(words).items()
        assert ("--freeze-base" in words) == (way == "frozen") != ("--finetune-from-model" in words)
        assert "--skip-invalid-size-inputs-valid-test" in words


def test_a_record_says_what_a_model_was_made_of_and_it_is_made_once(dry_run):
    models = {"MODELS": "original/frozen_4 original/tuned_4"}
    dry_run.run("blockwise", "01_heads", **models)
    assert len(dry_run.calls()) == 2
    for way, count in (("frozen", 3), ("tuned", 2)):
        model = f"blockwise/original/{way}_4"
        record = json.loads((dry_run.work / f"{model}/provenance.json").read_text())
        assert len(record["commands"]) == count  # nothing of the model before
        assert "$WORK/bin/ende/train.en-de.de.bin" in record["inputs"]
        start = "$WORK/blockwise/original/frozen_4/model.pt"
        assert (start in record["inputs"]) == (way == "tuned")
        assert list(record["outputs"]) == [f"$WORK/{model}/model.pt"]
    again = dry_run.run("blockwise", "01_heads", **models)
    assert again.stderr.count("done before") == 2 and dry_run.calls() == []


def test_models_are_chosen_and_settings_heeded(printed):
    settings = {
        "MODELS": "distilled/tuned_12 original/frozen_2", "OUT": "/else", "DISTILLED": "/own/bin",
        "HEAD_UPDATES": 30, "TUNED_LR": "2e-4", "PROFILE": "smoke",
    }  # fmt: skip
    tuned, frozen, *decoded = [w for w in printed("blockwise", **settings) if "fairseq-" in w[0]]
    wanted = {"--block-size": "12", "--lr": "2e-4", "--max-update": "30", "--max-tokens": "1024"}
    assert wanted.items() <= values(tuned).items() and tuned[1] == "/own/bin"
    assert "--finetune-from-model" not in tuned  # there is no frozen_12
    assert values(frozen)["--block-size"] == "2"
    assert [values(words)["--path"] for words in decoded] == [
        "$WORK/verifier/verifier.pt", "/else/distilled/tuned_12/model.pt",
        "/else/original/frozen_2/model.pt",
    ]  # fmt: skip


def test_decoding_is_blockwise_one_sentence_at_a_time(printed):
    greedy, *calls = printed("blockwise", "02_decode", LENGTH_FLAGS="--max-len-b 60")
    assert values(greedy)["--strategy"] == "greedy"
    for model, words in zip(DEFAULT, calls):
        path = {"--path": f"$WORK/blockwise/{model}/model.pt"}
        assert words[:2] == ["fairseq-generate", "$WORK/bin/ende"] and words[-2] == ">"
        assert {**DECODED, **path}.items() <= values(words).items()
        assert {"--cpu", "--remove-bpe"} <= set(words)
        assert words[-1] == f"$WORK/blockwise/decoded/{model.replace('/', '_')}.out"


@pytest.mark.slow
def test_all_steps_run_and_resume(run_recipe, tiny_pair, tmp_path):
    settings = dict(tiny_pair, MODELS="original/frozen_4 distilled/tuned_3")
    done = run_recipe("blockwise", **settings)
    out = tmp_path / "work/blockwise/decoded"
    texts = {}
    for name in ("greedy", "original_frozen_4", "distilled_tuned_3"):
        lines = (out / f"{name}.out").read_text(encoding="utf-8").splitlines()
        texts[name] = [line.split("\t")[2] for line in lines if line.startswith("H-")]
        assert len(texts[name]) == 100
        assert f"{name}: strategy " in done.stderr
    assert texts["original_frozen_4"] == texts["greedy"]  # a frozen base writes what it did
    again = run_recipe("blockwise", **settings)
    assert again.stderr.count("done before") == 3
