"""``specdec-bench`` on a folder that specdec-convert hf wrote, with plain text."""

import re

import pytest
import torch
from hf_folders import converted, expected_of, languages_of

from fairseq_specdec.bench import cli, session


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The folder of a family, converted once, with its sources in ``text``."""
    made = {}

    def of(family):
        if family not in made:
            out = tmp_path_factory.mktemp(family)
            converted(family, out)
            text = "".join(f"{line}\n\n" for line in expected_of(family)["sources"][:8])
            (out / "text").write_text(text, encoding="utf-8")
            made[family] = out
        return made[family]

    return of


def run(folder, *words):
    threads = torch.get_num_threads()
    given = [folder, "--cpu", "--warmup", 0, *words]
    try:
        return cli.main(list(map(str, given)), lambda text: None)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("family", ["marian", "m2m_100", "mbart25", "bart"])
def test_a_converted_folder(folders, family):
    """Its task, languages, settings and verifier need no flags. The outputs are transformers'."""
    folder = folders(family)
    path = folder / "verifier.pt"
    results = run(
        folder, "--text", folder / "text", "--by-sentence",
        "--json", folder / "figures.json", "--system", "greedy: --strategy greedy",
        "--system", f"sps: --strategy sps --drafter-path {path}",
    )  # fmt: skip
    (part,) = results["runs"]
    rows = {row["system"]: row for row in part["rows"]}
    assert results["settings"]["sentences"] == 8, "empty lines are left out"
    assert results["settings"]["source_lang"] == languages_of(family)[0]
    assert results["settings"]["subset"] == str(folder / "text")
    assert {rows[name]["identical_percent"] for name in ("greedy", "sps")} == {100.0}
    assert rows["sps"]["tok"] > 2


def test_settings_of_the_folder_hold(folders):
    """Flags of the command line come before them."""
    folder = folders("bart")
    words = [str(folder), "--text", str(folder / "text")]
    own, flagged = (session.read([*words, *more]).args for more in ((), ("--max-len-b", "50")))
    assert (own.max_len_a, own.max_len_b, own.no_repeat_ngram_size) == (0, 38, 3)
    assert (flagged.max_len_b, flagged.min_len) == (50, own.min_len)


@pytest.mark.parametrize(
    "words, message",
    [
        (("--target-lang", "deu"), "--target-lang deu: none of the .* near it are deu_Latn"),
        ((), "--text: missing; name plain text"),
        (("--text", "none.txt"), "--text none.txt: no such file"),
        (("--text", "EMPTY"), "--text .*: holds no text; give one sentence a line"),
    ],
)
def test_what_is_refused(folders, words, message, tmp_path):
    (tmp_path / "empty").write_text(" \n", encoding="utf-8")
    words = [str(tmp_path / "empty") if word == "EMPTY" else word for word in words]
    with pytest.raises(ValueError, match=message):
        run(folders("nllb"), *words)


def test_text_is_for_converted_folders(pair, tmp_path):
    with pytest.raises(
        ValueError, match=re.escape(f"{pair.data} is no folder that specdec-convert")
    ):
        run(pair.data, "--path", pair.v, "--text", tmp_path / "text", "-s", "src", "-t", "tgt")
