"""``specdec-convert hf`` on stored folders of a few KB: transformers' text comes out.

tests/conversion/make_hf_fixtures.py made them; ``expected.json`` is what transformers gave.
"""

import functools
import json
import shutil

import hf_folders
import pytest
from hf_folders import FAMILIES, STORED, expected_of
from in_process import PLUGIN, run_here

from fairseq_specdec.checkpoints.reading import load_checkpoint
from fairseq_specdec.conversion import cli
from fairseq_specdec.conversion.hf.convert import convert, load
from fairseq_specdec.conversion.hf.folder import ModelFolder
from fairseq_specdec.conversion.hf.vocabulary import read_pieces
from fairseq_specdec.hub import SpeculativeTranslator
from fairseq_specdec.hub.converted import codec_of, describe


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    """The folder of a family, converted once, and what the command prints."""

    @functools.cache
    def of(family):
        out = tmp_path_factory.mktemp(family)
        return out, hf_folders.converted(family, out, named=False)

    return of


def loaded(out, family, **more):
    source, target = expected_of(family)["languages"]
    return SpeculativeTranslator.from_pretrained(
        out, source_lang=source, target_lang=target, device="cpu", **more
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_the_text_is_transformers(converted, family):
    facts = expected_of(family)
    translator = loaded(converted(family)[0], family)
    assert list(map(str, translator.translate(facts["sources"]))) == facts["outputs"]
    assert len(set(facts["outputs"])) > 5, "outputs that differ, or a broken model would pass"
    pieces = translator.translate_stream(facts["sources"][0])
    assert "".join(map(str, pieces)) == facts["outputs"][0]
    begun = [text.split()[0] for text in facts["outputs"]]
    translations = translator.translate(facts["sources"], prefix=begun)
    assert list(map(str, translations)) == facts["outputs"]
    other = translator.translate(facts["sources"][0], prefix=facts["outputs"][1]).text
    assert other.startswith(facts["outputs"][1]) and facts["outputs"][0] != facts["outputs"][1]


@pytest.mark.parametrize("family", ["marian", "mbart25"])
def test_drafts_of_a_converted_model_change_nothing(converted, with_library, family):
    """The model itself drafts: with its start symbol and first token, or it would draft others.
    Packed beside its description: its tokenizer, languages and settings hold."""
    facts, (out, _) = expected_of(family), converted(family)
    drafter = out / "packed.pt"
    cli.cli_main(["pack", str(out / "verifier.pt"), str(drafter)])
    drafted = loaded(drafter, family, strategy="sps", drafter=drafter, draft_budget=0)
    translations = drafted.translate(facts["sources"])
    assert list(map(str, translations)) == facts["outputs"]
    tokens = sum(len(each.tokens) for each in translations)
    assert sum(each.iterations for each in translations) < tokens / 2


def only_tokenizer_json(family, to):
    """A copy of a folder with tokenizer.json instead of its other tokenizer files."""
    shutil.copytree(STORED / family, to)
    added = {}
    if family == "bart":
        vocab = json.loads((to / "vocab.json").read_text(encoding="utf-8"))
        lines = (to / "merges.txt").read_text(encoding="utf-8").splitlines()[1:]
        model = {"type": "BPE", "vocab": vocab, "merges": [line.split() for line in lines]}
        gone = ("vocab.json", "merges.txt")
    else:
        pieces = read_pieces(ModelFolder(str(to)), "sentencepiece.bpe.model")[3:]
        words = ["<s>", "<pad>", "</s>", "<unk>", *pieces]
        model = {"type": "Unigram", "vocab": [[word, -1.0] for word in words]}
        tokens = load(str(to)).vocabularies[0].tokens
        added = {i: token for i, token in tokens.items() if i >= len(words)}
        gone = ("sentencepiece.bpe.model",)
    entries = [{"id": i, "content": token, "special": True} for i, token in added.items()]
    (to / "tokenizer.json").write_text(json.dumps({"model": model, "added_tokens": entries}))
    for name in gone:
        (to / name).unlink()
    return to


@pytest.mark.parametrize("family", ["nllb", "mbart25", "bart"])
def test_tokenizer_json_alone(converted, family, tmp_path):
    """The same dictionaries and weights come out; no flag names a file that is not there."""
    before, _ = converted(family)
    out = tmp_path / "out"
    folder = only_tokenizer_json(family, tmp_path / "in")
    printed = convert(str(folder), str(out), None, None, False)
    names = [path.name for path in before.glob("dict.*.txt")]
    if family != "bart":  # whose words are numbers for fairseq's own BPE
        assert names and all((out / n).read_text() == (before / n).read_text() for n in names)
    theirs, ours = (load_checkpoint(str(each / "verifier.pt"))["model"] for each in (before, out))
    assert theirs.keys() == ours.keys() and all(theirs[n].equal(ours[n]) for n in ours)
    assert "--bpe" not in printed and "sentences as their pieces" in printed
    message = "bpe 'sentencepiece': a converted model has tokenizers$"
    with pytest.raises(ValueError, match=message):
        loaded(out, family, bpe="sentencepiece")


@pytest.mark.parametrize("family, ours", [(f, i % 2) for i, f in enumerate(FAMILIES[:-1])])
def test_the_printed_command(converted, family, ours, tmp_path):
    """It gives transformers' text, and with fairseq's own task too."""
    facts = expected_of(family)
    out, message = converted(family)
    command = message[message.index("fairseq-interactive") :].split("\n\n")[0]
    words = command.replace("\\\n", " ").replace("'", "").split()[1:]
    at = words.index("--user-dir")
    assert words[at : at + 2] == ["--user-dir", PLUGIN]
    assert f"specdec-serve --path {out}" in message
    words[at : at + 2] = []
    if not ours:
        at = words.index("--task") + 1
        words[at] = words[at].removesuffix("_specdec")
        assert f"; --task {words[at]} is fairseq's own" in message
    for flag, language in zip(("--source-lang", "--target-lang"), facts["languages"]):
        if language is not None:
            words[words.index(flag) + 1] = language
    if "--lang-pairs" in words:
        words[words.index("--lang-pairs") + 1] = "-".join(facts["languages"])
    sources = facts["sources"][:6]
    (tmp_path / "text").write_text("\n".join(sources) + "\n", encoding="utf-8")
    printed, _ = run_here("interactive", *words, input=tmp_path / "text")
    lines = [line.split("\t") for line in printed.splitlines() if line.startswith("D-")]
    assert [text for _, _, text in lines] == facts["outputs"][:6]


def test_the_command_line(tmp_path, capsys):
    cli.cli_main(["hf", str(STORED / "bart"), "--out", str(tmp_path / "out")])
    assert "from_pretrained(" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=f"--out {tmp_path}/out: holds something already; --force"):
        cli.cli_main(["hf", str(STORED / "bart"), "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit, match="no such folder; name one with config.json in it"):
        cli.cli_main(["hf", str(tmp_path / "none"), "--out", str(tmp_path / "other")])


def test_padding_in_a_text_is_read_as_a_word(converted):
    """transformers attends to it, and fairseq does not."""
    texts = ["remi <pad> le kivoda sekugi?", "<pad>numu remi lu zimuzo setipu!"]
    translations = loaded(converted("marian")[0], "marian").translate(texts)
    assert list(map(str, translations)) == ["lemi lemi remi.", "vamulu ZO rulu ZO."]


def test_a_language_may_have_any_name(converted, tmp_path):
    """One of the folder's, under the name of one that was added; fairseq's tasks split it."""
    nllb, folder = converted("nllb")[0], shutil.copytree(STORED / "nllb", tmp_path / "in")
    for path in folder.glob("*tok*.json"):
        text = path.read_text(encoding="utf-8").replace("fur_Latn", "gsw-CH")
        path.write_text(text, encoding="utf-8")
    printed = convert(str(folder), str(tmp_path / "out"), "gsw-CH", "deu_Latn", False)
    assert "take no language with a hyphen" in printed
    outputs = []
    for out, code in ((nllb, "fur_Latn"), (tmp_path / "out", "gsw-CH")):
        for source, target in ((code, "deu_Latn"), ("eng_Latn", code)):
            translator = SpeculativeTranslator.from_pretrained(
                out, source_lang=source, target_lang=target, device="cpu"
            )
            outputs.append(list(map(str, translator.translate(expected_of("nllb")["sources"]))))
    assert outputs[:2] == outputs[2:]
    with pytest.raises(ValueError, match="split pairs of languages at hyphens, as in gsw-CH"):
        codec_of(describe([str(tmp_path / "out" / "verifier.pt")], "gsw-CH", "deu_Latn"))


@pytest.mark.parametrize(
    "family, pair", [("nllb", ("eng_Latn", "deu_Latn")), ("marian", (None,) * 2)]
)
def test_a_text_gives_a_list_of_tokens(converted, family, pair, tmp_path):
    whole, _ = converted(family)
    (tmp_path / "text").write_bytes(b"remi lemi remi\n\nremi \xff\n")
    arguments = STORED / family, tmp_path / "out", *pair, False, tmp_path / "text"
    printed = convert(*(a if a in (None, False) else str(a) for a in arguments))
    (path,) = (tmp_path / "out").glob("vocabulary.*.txt")
    assert path.name == f"vocabulary.{pair[1] or 'yy'}.txt"
    assert printed.count(f"--vocabulary-list {path}") == 2
    assert f"vocabulary_list='{path}'" in printed
    listed = path.read_text(encoding="utf-8").split()
    assert listed[0] in ("▁remi", "▁") and len(set(listed)) == len(listed)
    texts = expected_of(family)["sources"]
    listed = loaded(tmp_path / "out", family, vocabulary_list=str(path)).translate(texts)
    assert list(map(str, listed)) == list(map(str, loaded(whole, family).translate(texts)))


def test_a_text_in_no_language_gives_no_list(tmp_path):
    (tmp_path / "text").write_text("remi\n")
    for text, said in (("text", "--vocabulary-text: needs its language; name --target-lang"),
                       ("none", "--vocabulary-text: no such file")):  # fmt: skip
        with pytest.raises(ValueError, match=said):
            convert(
                str(STORED / "nllb"), str(tmp_path / "out"), None, None, False, str(tmp_path / text)
            )
    assert not (tmp_path / "out").exists()


def test_outputs_begin_with_the_language_that_was_asked_for(converted):
    """One that the model was not trained for, and would not begin with by itself."""
    out, _ = converted("m2m_100")
    translator = SpeculativeTranslator.from_pretrained(out, source_lang="en", target_lang="fr")
    decoding = translator.opened().base
    sample, first = decoding.given([translator.codec.encode("lu mafu.")])
    hypotheses = decoding.generator.generate(decoding.loaded.models, sample, **first)
    words = decoding.loaded.task.target_dictionary
    assert words.symbols[hypotheses[0][0]["tokens"][0]] == "__fr__"


@pytest.mark.parametrize(
    "family, given, message",
    [
        ("nllb", ("eng", "deu_Latn"), "^source_lang eng: none of .* near it are eng_Latn$"),
        ("nllb", ("eng_Latn", None), "^target_lang: the model has 202 languages; name one"),
        ("nllb", ("??", "deu_Latn"), "of the 202 that converted.json lists are ace_Arab, "),
        ("marian", (None, "de"), "^target_lang de: the model's is yy"),
    ],
)
def test_wrong_languages_are_refused_with_the_nearest(converted, family, given, message):
    source, target = given
    with pytest.raises(ValueError, match=message):
        SpeculativeTranslator.from_pretrained(
            converted(family)[0], source_lang=source, target_lang=target
        )


def test_a_language_that_was_left_out_is_never_the_other_one(tmp_path):
    """The folder's own target stood in for it: German would be translated to German."""
    convert(str(STORED / "mbart25"), str(tmp_path), "en_XX", "de_DE", False)
    with pytest.raises(ValueError, match="^target_lang: left out, it is de_DE, as the other"):
        SpeculativeTranslator.from_pretrained(tmp_path, source_lang="de_DE")
    with pytest.raises(ValueError, match="^source_lang: left out, it is en_XX, as the other"):
        SpeculativeTranslator.from_pretrained(tmp_path, target_lang="en_XX")
    for languages in ({"source_lang": "de_DE", "target_lang": "de_DE"}, {"source_lang": "en_XX"}):
        SpeculativeTranslator.from_pretrained(tmp_path, **languages).close()


def test_flags_of_the_call_come_before_the_folders(converted):
    generation = load(str(STORED / "bart")).generation  # of transformers 5 to 40, with the start
    flags = {"min_len": 4, "max_len_b": 38, "no_repeat_ngram_size": 3, "lenpen": 1.0}
    assert generation.flags == flags and generation.forced_first == 0
    short = loaded(converted("bart")[0], "bart", max_len_b=3, min_len=1)
    assert all(len(each.tokens) <= 3 for each in short.translate(expected_of("bart")["sources"]))
    with pytest.raises(ValueError, match="^bpe 'bytes': a converted model has gpt2"):
        loaded(converted("bart")[0], "bart", bpe="bytes")
