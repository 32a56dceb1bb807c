"""The recipes for summarisation and simplification: tables, corpora, weights, scores, mistakes."""

import re
import sys

import parallel_text
import pretrained
import pytest
import recipe_file
import summary_corpus
import summary_scores
import torch
from fetch import SourceError
from recipe_parts import archive, sources_file
from toy_drafter import dictionary_of
from translation_scores import Output
from wikilarge import scores as simplification_scores


def named_sources(folder, lines):
    """A recipe with these sources, and the name that each has in the folder of downloads."""
    path = sources_file(folder / "recipe.yaml", lines)
    return path, [source.name for source in recipe_file.sources(path)]


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
    table, names = named_sources(tmp_path, lines)
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
    table, names = named_sources(
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
    table, names = named_sources(tmp_path, lines)
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


@pytest.mark.parametrize("mask", [0, 1])
def test_pretrained_embeddings_follow_their_symbols(mask):
    own = dictionary_of("a", "b", "c", "madeupword0001")
    wanted = dictionary_of("c", "a", "madeupword0")
    table = torch.arange(len(own) + mask).float().unsqueeze(1)
    model = {name: table.clone() for name in pretrained.TABLES}
    model["classification_heads.x.dense.weight"] = table
    state = {"model": model, "last_optimizer_state": {}}
    pretrained.fit(state, own, wanted)
    assert set(state["model"]) == set(pretrained.TABLES) and "last_optimizer_state" not in state
    for name in pretrained.TABLES:
        assert state["model"][name].flatten().tolist() == [0, 1, 2, 3, 6, 4, own.unk()]


def test_the_chosen_layers_keep_their_order():
    model = {f"decoder.layers.{n}.fc1.weight": n for n in range(12)} | {"encoder.x": -1}
    for keep, layers in ((2, [0, 11]), (1, [0]), (3, [0, 6, 11])):
        chosen = pretrained.select_layers(model, keep)
        assert chosen.pop("encoder.x") == -1
        assert chosen == {f"decoder.layers.{n}.fc1.weight": old for n, old in enumerate(layers)}
    for wrong in (0, 13):
        with pytest.raises(ValueError, match=f"KEEP {wrong}: the decoder has 12 layers"):
            pretrained.select_layers(model, wrong)


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
    assert re.match(r"rouge-score [\d.]+, F1, Porter stemmer; rougeLsum", scores["rouge_variant"])
    with pytest.raises(ValueError, match="no line 1"):
        summary_scores.scores(output, wanted[:1], str, scorer)


def test_every_point_of_a_sweep_is_decoded_for_its_rouge(printed):
    commands = printed("xsum", "06_decode", MODELS="all")
    (words,) = [
        c for c in commands if "trade_off.bild_aligned_alpha_fb=0.2_alpha_rb=5.out" in c[-1]
    ]
    assert words[words.index("--alpha-fb") + 1] == "0.2" and "--sweep" not in words
    assert words[words.index("--alpha-rb") + 1] == "5"


def test_sentences_end_at_marks_before_a_blank():
    text = 'Version 2.0 is out. "Is it?" Yes! '
    assert summary_scores.by_sentence(text).splitlines() == ["Version 2.0 is out.", '"Is it?"',
                                                             "Yes!"]  # fmt: skip


def test_without_the_package_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "rouge_score", None)
    with pytest.raises(ValueError, match=r"pip install rouge-score"):
        summary_scores.make_scorer()
