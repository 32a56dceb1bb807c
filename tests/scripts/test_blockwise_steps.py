"""The steps of scripts/blockwise: which models they train and decode with, and how."""

import json

import pytest

DEFAULT = [
    "original/frozen_4",
    "original/tuned_4",
    "distilled/frozen_4",
    "distilled/tuned_4",
    "distilled/frozen_8",
    "distilled/tuned_8",
]


def value(words, flag):
    return words[words.index(flag) + 1]


def test_each_model_is_trained_as_its_name_says(dry_run):
    dry_run.run("blockwise", "01_heads")
    calls = dry_run.calls()
    assert [value(words, "--save-dir") for words in calls] == [
        f"$WORK/blockwise/{m}" for m in DEFAULT
    ]
    for model, words in zip(DEFAULT, calls):
        corpus, _, rest = model.partition("/")
        way, _, k = rest.partition("_")
        folder = {"original": "ende", "distilled": "ende_distilled"}[corpus]
        assert words[:2] == ["fairseq-train", f"$WORK/bin/{folder}"]
        assert value(words, "--arch") == "blockwise_transformer"
        assert value(words, "--init-from") == "$WORK/verifier/verifier.pt"
        assert value(words, "--criterion") == "blockwise_loss"
        assert value(words, "--label-smoothing") == "0"
        assert value(words, "--first-head") == "identity"
        assert value(words, "--block-size") == k
        assert ("--freeze-base" in words) == (way == "frozen")
        start = f"$WORK/blockwise/{corpus}/frozen_{k}/model.pt"  # tuned: from the frozen one
        assert ("--finetune-from-model" in words) == (way == "tuned")
        if way == "tuned":
            assert value(words, "--finetune-from-model") == start
        assert value(words, "--lr") == {"frozen": "1e-3", "tuned": "1e-4"}[way]
        assert value(words, "--max-update") == "1500" and value(words, "--max-tokens") == "4096"
        assert "--skip-invalid-size-inputs-valid-test" in words
        record = json.loads((dry_run.work / f"blockwise/{model}/provenance.json").read_text())
        # Trained, averaged, the frozen base put back: nothing of the model before.
        assert len(record["commands"]) == {"frozen": 3, "tuned": 2}[way]
        assert f"$WORK/bin/{folder}/train.en-de.de.bin" in record["inputs"]
        assert (start in record["inputs"]) == (way == "tuned")
        assert list(record["outputs"]) == [f"$WORK/blockwise/{model}/model.pt"]

    again = dry_run.run("blockwise", "01_heads")
    assert again.stderr.count("done before") == len(DEFAULT) and dry_run.calls() == []


def test_models_are_chosen_and_settings_heeded(dry_run, tmp_path):
    other = tmp_path / "else"
    settings = {
        "MODELS": "distilled/tuned_12 original/frozen_2",
        "OUT": other,
        "DISTILLED": dry_run.work / "bin/ende",
        "HEAD_UPDATES": 30,
        "TUNED_LR": "2e-4",
        "PROFILE": "smoke",
    }
    dry_run.run("blockwise", **settings)
    tuned, frozen, *decoded = dry_run.calls()
    assert value(tuned, "--block-size") == "12" and value(frozen, "--block-size") == "2"
    assert "--finetune-from-model" not in tuned  # there is no frozen_12
    assert tuned[1] == "$WORK/bin/ende" and value(tuned, "--lr") == "2e-4"
    assert value(tuned, "--max-update") == "30" and value(tuned, "--max-tokens") == "1024"
    assert (other / "distilled/tuned_12/model.pt").is_file()
    assert [value(words, "--path") for words in decoded] == [
        "$WORK/verifier/verifier.pt",
        f"{other}/distilled/tuned_12/model.pt",
        f"{other}/original/frozen_2/model.pt",
    ]


def test_decoding_is_blockwise_one_sentence_at_a_time(dry_run):
    dry_run.add(*(f"blockwise/{model}/model.pt" for model in DEFAULT))
    done = dry_run.run("blockwise", "02_decode", LENGTH_FLAGS="--max-len-b 60")
    greedy, *calls = dry_run.calls()
    assert value(greedy, "--strategy") == "greedy"
    assert [value(words, "--path") for words in calls] == [
        f"$WORK/blockwise/{model}/model.pt" for model in DEFAULT
    ]
    for words in calls:
        assert words[:2] == ["fairseq-generate", "$WORK/bin/ende"]
        assert value(words, "--strategy") == "blockwise"
        assert value(words, "--batch-size") == value(words, "--beam") == "1"
        assert value(words, "--gen-subset") == "test" and value(words, "--max-len-b") == "60"
        assert "--cpu" in words and "--remove-bpe" in words
    for model in DEFAULT:
        name = model.replace("/", "_")
        assert (dry_run.work / f"blockwise/decoded/{name}.out").is_file()
        assert f"{name}: strategy " in done.stderr


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
