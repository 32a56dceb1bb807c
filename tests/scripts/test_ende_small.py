"""scripts/ende_small with a verifier of the user's own."""

import pytest


@pytest.mark.slow
def test_another_verifier_comes_with_its_subwords(run_recipe, own_text, tmp_path):
    words = tmp_path / "words"
    words.mkdir()
    for name in ("dict.en.txt", "dict.de.txt"):
        (words / name).write_text("the 7\n")
    (tmp_path / "own.pt").write_text("a verifier\n")
    own = {"VERIFIER": tmp_path / "own.pt", "DICTIONARIES": words, **own_text}
    done = run_recipe("ende_small", "01_prepare", check=False, **own)
    assert f"{words / 'codes'} is missing" in done.stderr and "Traceback" not in done.stderr
    (words / "codes").write_text("#version: 0.2\nt h\nth e</w>\n")
    run_recipe("ende_small", "01_prepare", **own)
    home = tmp_path / "work/ende_small"
    assert (home / "bin/dict.en.txt").read_text().startswith("the 7\n")
    assert (home / "en-de/models/verifier/model.pt").read_text() == "a verifier\n"
    assert not (home / "en-de/models/attached").exists()  # the demo pair's reads another one
    assert "done before" in run_recipe("ende_small", "01_prepare", **own).stderr
