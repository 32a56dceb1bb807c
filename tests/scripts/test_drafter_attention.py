"""Figure 3 of Xia et al. 2023: a distribution over the source for each token of the output."""

import json

import attention
import pytest
from recipe_parts import REPO
from toy_pair import write_pair


@pytest.mark.parametrize("attached", [False, True])
def test_each_token_has_a_row_near_the_verifiers(attached, tmp_path):
    pair = REPO / "data-bin/demo_ende" if attached else write_pair(tmp_path)
    models = ["--path", f"{pair}/verifier.pt", "--drafter-path", f"{pair}/drafter.pt"]
    attention.main([str(pair), *models, "--out", f"{tmp_path}/made", "--limit", "2"])
    made = json.loads((tmp_path / "made.json").read_text())
    assert made["k"] == (10 if attached else 4) and len(made["sentences"]) == 2
    for one in made["sentences"]:
        assert len(one["target"]) > made["k"]
        assert one["overlap"] > (one["overlap_shared"] if attached else 0)
        for rows in (one["verifier"], one["drafter"]):
            assert [len(row) for row in rows] == [len(one["source"])] * len(one["target"])
            assert [sum(row) for row in rows] == pytest.approx([1] * len(rows), abs=1e-4)
