"""The recipes for summarisation and simplification: tables, corpora, weights, scores, mistakes."""

import io
import json
import re
import sys
import tarfile

import parallel_text
import pretrained
import pytest
import recipe_config
import summary_corpus
import summary_scores
import torch
from fairseq.data import Dictionary
from fairseq.data.encoders.gpt2_bpe_utils import bytes_to_unicode
from fetch import SourceError, read_sources
from gpt2_subwords import decode, encode
from recipe_parts import REPO
from translation_scores import Output
from wikilarge import scores as simplification_scores


@pytest.mark.parametrize("name", ["sum_nar_drafter", "sum_spec_drafter"])
def test_drafters_have_the_verifiers_shape(name):
    drafter, verifier = (
        recipe_config.read(REPO / "configs" / f"{one}.yaml") for one in (name, "sum_bart_base")
    )
    for key, value in verifier["model"].items():
        if key not in ("_name", "attention_dropout", "activation_dropout", "decoder_layers"):
            assert drafter["model"][key] == value, key
    assert drafter["model"]["decoder_layers"] == (2 if name == "sum_spec_drafter" else 6)
    assert drafter["model"]["block_size"] == 25


def archive(path, files):
    """A .tgz or .tar.bz2 of these texts."""
    mode = "w:bz2" if path.name.endswith("bz2") else "w:gz"
    with tarfile.open(str(path), mode) as out:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            content = text.encode("utf-8")
            info.size = len(content)
            out.addfile(info, io.BytesIO(content))


def sources_file(folder, lines):
    """A sources.tsv, and the name that each address has in the folder of downloads."""
    path = folder / "sources.tsv"
    path.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")
    return path, [source.name for source in read_sources(path)]


STORY = (
    "Lead line\n\n(CNN) -- It  rained.\n\n@highlight\n\nRain fell\n\n@highlight\n\nIt was wet.\n"
)
ARTICLE = (
    "[SN]URL[SN]\nhttp://x\n\n[SN]TITLE[SN]\nT\n\n[SN]FIRST-SENTENCE[SN]\n\nIt rained.\n\n"
    "[SN]RESTBODY[SN]\nShare this with\nEmail\nA lot of\nrain fell.\n"
)


def test_stories_and_articles_become_pairs():
    lead = "Lead line . (CNN) -- It rained."
    assert summary_corpus.story_pair(STORY) == (lead, "Rain fell . It was wet.")
    assert summary_corpus.story_pair("only text") == ("only text .", "")
    assert summary_corpus.bbc_pair(ARTICLE) == ("A lot of rain fell.", "It rained.")


def test_cnndm_is_split_by_the_hash_of_its_addresses(tmp_path):
    urls = {split: f"http://{split}" for split in ("train", "valid", "test")}
    lines = [("articles", "https://a.org/s.tgz", "-", "free", "-", "-")]
    lines += [(split, f"https://a.org/{split}.txt", "-", "free", "-", "-") for split in urls]
    table, names = sources_file(tmp_path, lines)
    hashes = {split: summary_corpus.hashlib.sha1(url.encode()).hexdigest()
              for split, url in urls.items()}  # fmt: skip
    stories = {f"s/{hashes[split]}.story": STORY.replace("Lead", split) for split in urls}
    archive(tmp_path / names[0], {**stories, "s/other.story": STORY})
    for url, name in zip(urls.values(), names[1:]):
        (tmp_path / name).write_text(f"{url}\n")
    out = tmp_path / "raw"
    summary_corpus.write(table, tmp_path, out, "cnndm")
    for split in urls:
        assert (out / f"{split}.source").read_text().startswith(f"{split} line .")
        assert (out / f"{split}.target").read_text() == "Rain fell . It was wet.\n"
    (tmp_path / names[1]).write_text("http://elsewhere\n")
    with pytest.raises(SourceError, match="do not agree"):
        summary_corpus.write(table, tmp_path, tmp_path / "no", "cnndm")
    assert not (tmp_path / "no" / "train.source").exists()


def test_xsum_is_split_by_its_list(tmp_path):
    table, names = sources_file(
        tmp_path,
        [("articles", "https://a.org/x.tgz", "-", "free", "-", "-"),
         ("splits", "https://a.org/x.json", "-", "free", "-", "-")],
    )  # fmt: skip
    archive(tmp_path / names[0], {f"b/{n}.summary": ARTICLE for n in (1, 2, 3)})
    (tmp_path / names[1]).write_text('{"train": ["2"], "validation": ["1"], "test": ["3", "4"]}')
    summary_corpus.write(table, tmp_path, tmp_path / "raw", "xsum")
    assert (tmp_path / "raw/valid.target").read_text() == "It rained.\n"
    (tmp_path / names[0]).write_bytes((tmp_path / names[0]).read_bytes()[:40])
    with pytest.raises(SourceError, match="cannot be read"):
        summary_corpus.write(table, tmp_path, tmp_path / "no", "xsum")


def test_wikilarge_keeps_every_test_sentence_and_all_references(tmp_path):
    url = "https://a.org/w.tar.bz2"
    lines = [(s, url, "-", "free", f"{s}.src", f"{s}.dst") for s in ("train", "valid", "test")]
    lines += [("reference", f"https://a.org/t.{n}", "-", "free", "-", "-") for n in (0, 1)]
    table, names = sources_file(tmp_path, lines)
    texts = {"train": ("A  b\n\nc\n", "A\nd\nc\n"), "valid": ("v\n", "v\n"),
             "test": ("T u\nw\n", "T\nw\n")}  # fmt: skip
    sides = {f"{s}.{end}": text for s, both in texts.items()
             for end, text in zip(("src", "dst"), both)}  # fmt: skip
    archive(tmp_path / names[0], sides)
    for number in (0, 1):
        (tmp_path / names[3 + number]).write_text(f"t {number}\nw\n")
    out = tmp_path / "out"
    parallel_text.write_tokenised(table, tmp_path, out, ("source", "target"))
    assert (out / "train.tok.source").read_text() == "A b\nc\n"
    assert (out / "test.tok.source").read_text() == "T u\nw\n"
    assert (out / "reference.1").read_text() == "t 1\nw\n"
    (tmp_path / names[4]).write_text("t\n")
    with pytest.raises(SourceError, match="1 lines, the test set has 2"):
        parallel_text.write_tokenised(table, tmp_path, out, ("source", "target"))


def test_simplifications_are_scored_in_lower_case_against_all_references():
    output = Output({0: "About 95 Species are now agreed .", 1: "same"}, {0: "", 1: ""})
    references = [
        ["about 95 species are currently known .", "same"],
        ["about 95 species are now accepted .", "same"],
        ["95 species are now accepted .", "other"],
    ]
    sources = ["about 95 species are currently accepted .", "same"]
    scores = simplification_scores.scores(output, sources, references)
    one = simplification_scores.scores(Output({0: output.hypotheses[0]}, {}), sources, references)
    assert one["sari"] == pytest.approx(58.89995423074248)  # the authors' example
    assert scores["sentences"] == 2 and 0 < scores["bleu"] <= 100
    assert "nrefs:3|case:lc" in scores["bleu_signature"]
    with pytest.raises(ValueError, match="has no line 1"):
        simplification_scores.scores(output, sources[:1], references)


@pytest.fixture
def gpt2(tmp_path):
    """Files of a tiny byte-pair encoding in GPT-2's form: bytes, and one merge."""
    symbols = [*bytes_to_unicode().values(), "th"]
    paths = str(tmp_path / "encoder.json"), str(tmp_path / "vocab.bpe")
    (tmp_path / "encoder.json").write_text(json.dumps({s: n for n, s in enumerate(symbols)}))
    (tmp_path / "vocab.bpe").write_text("#version\nt h\n", encoding="utf-8")
    return paths


def test_gpt2_subwords_come_back_as_text_and_are_cut(gpt2):
    numbers = encode("the äpfel", *gpt2, most=1000)
    assert "256" in numbers.split() and decode(numbers, *gpt2) == "the äpfel"
    assert len(encode("the äpfel", *gpt2, most=3).split()) == 3
    assert decode(f"<unk> {numbers} <pad> 99999", *gpt2) == "the äpfel"


def dictionary(*symbols):
    made = Dictionary()
    for symbol in symbols:
        made.add_symbol(symbol)
    return made


@pytest.mark.parametrize("mask", [0, 1])
def test_pretrained_embeddings_follow_their_symbols(mask):
    own, wanted = dictionary("a", "b", "c", "madeupword0001"), dictionary("c", "a", "madeupword0")
    table = torch.arange(len(own) + mask).float().unsqueeze(1)
    model = {name: table.clone() for name in pretrained.TABLES}
    model["classification_heads.x.dense.weight"] = table
    state = {"model": model, "last_optimizer_state": {}}
    pretrained.fit(state, own, wanted)
    assert set(state["model"]) == set(pretrained.TABLES) and "last_optimizer_state" not in state
    for name in pretrained.TABLES:
        assert state["model"][name].flatten().tolist() == [0, 1, 2, 3, 6, 4, own.unk()]


def test_a_dictionary_that_is_not_the_models_is_refused():
    with pytest.raises(ValueError, match="lacks 'z'"):
        pretrained.rows(dictionary("a"), dictionary("z"))
    state = {"model": {pretrained.TABLES[0]: torch.zeros(9, 1)}}
    with pytest.raises(ValueError, match="has 9 rows, its dictionary 5"):
        pretrained.fit(state, dictionary("a"), dictionary("a"))


def test_sentences_end_at_marks_before_a_blank():
    text = 'Version 2.0 is out. "Is it?" Yes! '
    assert summary_scores.by_sentence(text).splitlines() == ["Version 2.0 is out.", '"Is it?"',
                                                             "Yes!"]  # fmt: skip


def test_rouge_of_the_package(tmp_path):
    pytest.importorskip("rouge_score")
    scorer = summary_scores.make_scorer()
    output = Output({0: "rain fell . it was wet .", 1: "no"}, {0: "", 1: ""})
    wanted = ["It was wet. Rain falls.", "something else"]
    scores = summary_scores.scores(output, wanted, summary_scores.reader([]), scorer)
    assert scores["sentences"] == 2
    # Of the first, stems agree but for "fell"; whole sentences may change places for rougeLsum.
    assert scores["rouge1"] == pytest.approx(50 * 0.8)
    assert scores["rougeL"] == pytest.approx(50 * 0.6)
    assert scores["rougeLsum"] == pytest.approx(50 * 0.8)
    assert re.match(r"rouge-score [\d.]+, F1, Porter stemmer; rougeLsum", summary_scores.variant())
    with pytest.raises(ValueError, match="no line 1"):
        summary_scores.scores(output, wanted[:1], str, scorer)


def test_without_the_package_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "rouge_score", None)
    with pytest.raises(ValueError, match=r"pip install -r scripts/requirements/rouge.txt"):
        summary_scores.make_scorer()


@pytest.fixture
def with_rouge(tmp_path):
    """A setting that lets the steps find a stand-in of the scorer."""
    folder = tmp_path / "packages" / "rouge_score"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "rouge_scorer.py").write_text("RougeScorer = lambda *a, **k: None\n")
    return {"PYTHONPATH": str(folder.parent)}


@pytest.mark.parametrize(
    ("recipe", "remedy"), [("cnndm", "RAW takes a copy"), ("wikilarge", "TOKENISED takes a copy")]
)
def test_a_corpus_that_cannot_be_had_is_named_with_what_else_to_do(
    run_recipe, with_rouge, tmp_path, recipe, remedy
):
    sources, absent = tmp_path / "sources.tsv", (tmp_path / "absent.tgz").as_uri()
    sources.write_text(f"train\t{absent}\t-\tfree\ta\tb\n", encoding="utf-8")
    done = run_recipe(recipe, "01_prepare", check=False, SOURCES=sources, **with_rouge)
    assert done.returncode != 0 and "Traceback" not in done.stderr
    assert f"{absent} cannot be fetched" in done.stderr and remedy in done.stderr


def test_every_point_of_a_sweep_is_decoded_for_its_rouge(printed):
    commands = printed("xsum", "06_decode", MODELS="all")
    (words,) = [
        c for c in commands if "trade_off.bild_aligned_alpha_fb=0.2_alpha_rb=5.out" in c[-1]
    ]
    assert words[words.index("--alpha-fb") + 1] == "0.2" and "--sweep" not in words
    assert words[words.index("--alpha-rb") + 1] == "5"


@pytest.mark.slow
def test_the_samples_become_corpora(run_recipe, with_rouge, tmp_path):
    (tmp_path / "own.source").write_text("".join(f"long text number {n}\n" for n in range(40)))
    (tmp_path / "own.target").write_text("".join(f"text {n}\n" for n in range(40)))
    settings = {
        "PROFILE": "smoke", "SAMPLE": tmp_path / "own", "SMOKE_MERGES": 20, "MODELS": "small",
        **with_rouge,
    }  # fmt: skip
    run_recipe("xsum", "01_prepare", **settings)
    home = tmp_path / "work/xsum.smoke"
    assert (home / "bin/test.source-target.target.bin").exists()
    assert len((home / "raw/test.target").read_text().splitlines()) == 2
    assert (home / "source-target/models/bart_base/model.pt").exists()
    assert not (home / "source-target/models/bart_large").exists()  # no chosen model needs it
    again = run_recipe("xsum", "01_prepare", **settings)
    assert again.stderr.count("done before") == 2
    run_recipe("wikilarge", "01_prepare", PROFILE="smoke", SMOKE_MERGES=50)
    prepared = tmp_path / "work/wikilarge.smoke/prepared"
    assert (prepared / "reference.0").read_text() == (prepared / "test.tok.target").read_text()


@pytest.mark.slow
def test_all_steps_of_simplification_run_and_resume(run_recipe, tmp_path):
    settings = {"PROFILE": "smoke", "SMOKE_UPDATES": 3, "AVERAGE": 2, "SENTENCES": 3}
    done = run_recipe("wikilarge", **settings)
    out = tmp_path / "work/wikilarge.smoke/source-target"
    scores = json.loads((out / "decoded/scores.json").read_text(encoding="utf-8"))
    assert scores["wikilarge.iad"] == scores["wikilarge.gad"]
    assert scores["wikilarge.iad"] == scores["wikilarge.fairseq_beam_1"]
    assert "Ge et al. Table 4" in done.stdout and "36.1" in done.stdout
    assert run_recipe("wikilarge", **settings).stderr.count("done before") >= 6


@pytest.mark.slow
def test_all_steps_of_summarisation_run_and_resume(run_recipe, tmp_path):
    pytest.importorskip("rouge_score")
    settings = {
        "PROFILE": "smoke", "SMOKE_UPDATES": 3, "AVERAGE": 2, "SENTENCES": 3,
        "MODELS": "teacher verifier nar_drafter spec_drafter", "TABLE_SETS": "base",
    }  # fmt: skip
    done = run_recipe("cnndm", **settings)
    out = tmp_path / "work/cnndm.smoke/source-target"
    scores = json.loads((out / "decoded/scores.json").read_text(encoding="utf-8"))
    assert scores["base.gad"] == scores["base.fairseq_beam_1"]
    assert "Porter stemmer" in scores["base.specdec_k=25"]["rouge_variant"]
    assert "Xia et al. Table 5" in done.stdout and "not run" in done.stdout
    log = (out / "models/spec_drafter/train.log").read_text(encoding="utf-8")
    assert "copied encoder.embed_tokens" in log and "encoder.embed_positions" in log
    assert run_recipe("cnndm", **settings).stderr.count("done before") >= 7
