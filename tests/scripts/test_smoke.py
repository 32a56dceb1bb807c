"""Every recipe that trains, from its first step to its table; then each step is found done."""

import json

import pytest

# Of each recipe: settings, what it prints, steps that a second run finds done, scores.json, and the
# systems whose scores there are one another's.
MODELS = {"SMOKE_UPDATES": 3, "AVERAGE": 2, "SENTENCES": 3}
RECIPES = {
    "wmt14_ende": (
        {"MODELS": "teacher verifier spec_drafter", "GPUS": 2, "TABLE_SETS": "base", **MODELS},
        ["Xia et al. Table 1, en-de", "not run"], 6, "en-de/decoded", ["base.specdec_k=25"],
    ),
    "wikilarge": (
        MODELS, ["Ge et al. Table 4", "36.1"], 4, "source-target/decoded",
        ["wikilarge.iad", "wikilarge.fairseq_beam_1"],
    ),
    "cnndm": (
        {"MODELS": "teacher verifier nar_drafter spec_drafter", "TABLE_SETS": "base", **MODELS},
        ["Xia et al. Table 5", "not run"], 7, "source-target/decoded",
        ["base.gad", "base.fairseq_beam_1"],
    ),
    "gec_conll14": (
        {"MODELS": "all", **MODELS}, ["44.91", "M2 F0.5 here", "not run", "66.4"], 6,
        "src-tgt/decoded", ["conll13.iad"],
    ),
    "gec_conll14_bart": (MODELS, ["| 12+2 BART-Init (IAD)"], 5, "src-tgt/decoded", ["conll14.iad"]),
    "gec_nlpcc18": (
        {"MODELS": "scratch", "LENGTH_FLAGS": "--max-len-b 8", **MODELS},
        ["| Transformer (IAD)", "29.4"], 3, "src-tgt/decoded", ["nlpcc18.iad"],
    ),
    "ende_small": (
        {"SENTENCES": 3, "TABLE_SETS": "drafters", "UPDATES": 2, "SAVE_EVERY": 1,
         "MODELS": "verifier attached heads_4 spec_drafter", "HEAD_UPDATES": 2},
        ["Xia et al. Table 2", "not run"], 6, None, [],
    ),
    "blockwise": ({"MODELS": "original/frozen_4 distilled/tuned_3"}, [], 2, None, []),
    "bild": ({}, [], 4, None, []),
    "comparison": (
        {"MODELS": "original/frozen_4", "DRAFTER": "", "SENTENCES": 5},
        ["| bild-early-exit ", "| sps planned "], 6, None, [],
    ),
    "superresolution": ({"MODELS": "original/frozen_3 original/tuned_3"}, ["| 3 "], 4, None, []),
}  # fmt: skip
NEEDED = {"cnndm": "rouge_score", "superresolution": "skimage"}


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_all_steps_run_and_resume(run_recipe, tiny_pair, tmp_path, name):
    pytest.importorskip(NEEDED.get(name, "json"))
    own, printed, done_before, folder, same = RECIPES[name]
    of_a_verifier = tiny_pair if name in ("blockwise", "bild", "comparison") else {}
    settings = {**of_a_verifier, "PROFILE": "smoke", **own}
    done = run_recipe(name, **settings)
    assert all(part in done.stdout for part in printed)
    if folder:
        path = tmp_path / f"work/{name}.smoke" / folder / "scores.json"
        scores = json.loads(path.read_text(encoding="utf-8"))
        assert [scores[system] for system in same] == [scores[same[0]]] * len(same)
    again = run_recipe(name, **settings)
    assert again.stderr.count("done before") >= done_before, again.stderr
