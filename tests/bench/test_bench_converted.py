"""``specdec-bench MODEL``: folders that specdec-convert hf wrote and others, with plain text."""

import functools

import pytest
from hf_folders import converted, expected_of, languages_of
from in_process import one_thread

from fairseq_specdec.bench import cli, session
from fairseq_specdec.errors import UsageError
from fairseq_specdec.hub import SpeculativeTranslator


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The folder of a family, converted once, with its sources in ``text``."""

    @functools.cache
    def of(family):
        out = tmp_path_factory.mktemp(family)
        converted(family, out)
        text = "".join(f"{line}\n\n" for line in expected_of(family)["sources"][:8])
        (out / "text").write_text(text, encoding="utf-8")
        return out

    return of


def run(folder, *words):
    with one_thread():
        given = [folder, "--cpu", "--warmup", 0, *words]
        return cli.main(list(map(str, given)), lambda text: None)


@pytest.mark.parametrize("family", ["m2m_100", "bart"])
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


@pytest.mark.parametrize("words", ["{0}", "{0}/verifier.pt", "{0} --path {0}/verifier.pt"])
def test_any_model_takes_plain_text(pair, tmp_path, words):
    """Dictionaries and, of a folder, the drafter are found as ``from_pretrained`` finds them."""
    beside = "" if words == "{0}" else f" --drafter-path {pair.d}"
    (tmp_path / "text").write_text("w1 w2\n\n w3 unknown\n", encoding="utf-8")
    given = f"{words} --text {tmp_path}/text -s src -t tgt".format(pair.data).split()
    results = run(*given, "--system", f"gad: --strategy gad{beside}", "--by-sentence",
                  "--json", tmp_path / "json")  # fmt: skip
    assert [each["name"] for each in results["systems"]][2:] == ["greedy", "gad"]
    assert results["systems"][-1]["settings"]["drafter_path"] == pair.d
    assert results["settings"]["sentences"] == 2 and results["settings"]["data"] == pair.data
    with SpeculativeTranslator.from_pretrained(pair.v, strategy="greedy", device="cpu") as one:
        tokens = [len(each.scores) for each in one.translate(["w1 w2", "w3 unknown"], split=False)]
    by_sentence = results["runs"][0]["by_sentence"]
    found = dict(zip(by_sentence["id"], by_sentence["systems"]["gad"]["tokens"]))
    assert [found[0], found[1]] == tokens


def test_what_a_model_decodes_by_default(pair):
    for model, name in ((pair.data, "gad"), (pair.v, "greedy")):
        asked = session.read([model, "-s", "src", "-t", "tgt"])
        assert asked.plans[-1].name == name and asked.stock[1].paths == (pair.v,)
    with pytest.raises(UsageError) as caught:
        session.read(["gone.pt"])
    assert str(caught.value.original).startswith("MODEL: no such file: gone.pt; give a checkpoint")
