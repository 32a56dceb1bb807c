"""What the translation recipes fetch, read and score."""

import functools
import hashlib
import http.server
import json
import threading
import zipfile

import fetch
import parallel_text
import pytest
import translation_scores
from fetch import SourceError
from recipe_file import Source
from recipe_parts import archive, sources_file

CONTENT = bytes(range(256)) * 40


class Ranged(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT, heeds Range, and notes where each answer began.

    The address /broken gives 500 bytes at a time at the most, whatever it promises.
    """

    def do_GET(self):  # noqa: N802
        asked = self.headers.get("Range")
        start = int(asked[len("bytes=") : -1]) if asked else 0
        self.server.starts.append(start)
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        broken = self.path.startswith("/broken")
        self.wfile.write(CONTENT[start:][: 500 if broken else None])

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Ranged) as running:
        running.starts = []
        running.daemon_threads = True
        threading.Thread(target=functools.partial(running.serve_forever, 0.05), daemon=True).start()
        yield running
        running.shutdown()


def source(url, checksum="-"):
    return Source("train", url, "public domain", checksum, ("a", "b"))


def fetch_all(sources, folder):
    listed = [(s.split, s.url, s.checksum, s.licence, *s.files) for s in sources]
    fetch.fetch(sources_file(folder.with_name(f"{folder.name}.yaml"), listed), folder)


def test_a_broken_fetch_goes_on_where_it_was(server, tmp_path):
    asked = source(f"http://127.0.0.1:{server.server_port}/corpus.tgz")
    path = tmp_path / asked.name
    path.with_name(path.name + ".partial").write_bytes(CONTENT[:1000])
    fetch_all([asked, asked], tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.starts == [1000]
    fetch_all([asked], tmp_path)
    assert server.starts == [1000]


def test_what_breaks_off_is_never_taken_for_the_whole(server, tmp_path):
    asked = source(f"http://127.0.0.1:{server.server_port}/broken.tgz")
    for have in (500, 1000, 1500):
        with pytest.raises(SourceError, match=f"broke off after {have} of {len(CONTENT)} bytes"):
            fetch_all([asked], tmp_path)
    assert server.starts == [0, 500, 1000] and not (tmp_path / asked.name).exists()
    path = tmp_path / f"{asked.name}.partial"
    assert path.read_bytes() == CONTENT[:1500]


def test_the_first_checksum_is_noted_and_heeded(tmp_path, caplog):
    original = tmp_path / "x.tgz"
    original.write_bytes(CONTENT)
    asked = source(original.as_uri())
    with caplog.at_level("INFO"):
        fetch_all([asked], tmp_path / "got")
    assert "no published checksum" in caplog.text
    assert hashlib.sha256(CONTENT).hexdigest() in caplog.text
    (tmp_path / "got" / asked.name).write_bytes(CONTENT + b"!")
    with pytest.raises(SourceError, match="the first fetch"):
        fetch_all([asked], tmp_path / "got")
    right = "md5:" + hashlib.md5(CONTENT).hexdigest()
    fetch_all([source(original.as_uri(), right)], tmp_path / "published")
    with pytest.raises(SourceError, match="the published checksum"):
        fetch_all([source(original.as_uri(), "md5:" + "0" * 32)], tmp_path / "published")


@pytest.fixture
def archives(tmp_path):
    """Three archives, and the recipe that names them."""
    folder = tmp_path / "archives"
    folder.mkdir()
    urls = {name: f"https://a.org/{name}" for name in ("train.tgz", "more.zip", "test.tgz")}
    places = {name: folder / source(url).name for name, url in urls.items()}
    tagged = "<url>x</url>\n{}\n<title>t</title>\n{}\n"
    train = {
        "t/train.tags.ro-en.ro": tagged.format("Şi ţara\u00ad «bună» .", "unu"),
        "t/train.tags.ro-en.en": tagged.format("And a good land.", "one two three"),
    }
    archive(places["train.tgz"], train)
    with zipfile.ZipFile(places["more.zip"], "w") as packed:
        packed.writestr("m.ro", "a\u2028b c\n\nd e\n")
        packed.writestr("m.en", "a b c\nnothing\nd  e\n")
    segment = '<doc>\n<seg id="1">{}</seg>\n</doc>\n'
    texts = {"ro": " Q&amp;A’s ", "en": "a much longer line than the other one"}
    test = {f"t.{side}.sgm": segment.format(text) for side, text in texts.items()}
    archive(places["test.tgz"], test)
    lines = [
        ("train", "train.tgz", "t/train.tags.ro-en.ro", "t/train.tags.ro-en.en"),
        ("train", "more.zip", "m.ro", "m.en"),
        ("test", "test.tgz", "t.ro.sgm", "t.en.sgm"),
    ]
    listed = [(split, urls[name], "-", "free", *files) for split, name, *files in lines]
    return sources_file(tmp_path / "recipe.yaml", listed), folder


def test_archives_become_clean_parallel_text(archives, tmp_path):
    out = tmp_path / "raw"
    parallel_text.write(*archives, out, ("ro", "en"), diacritics=False)
    lines = {path.name: path.read_text(encoding="utf-8").splitlines() for path in out.iterdir()}
    # Markup, a pair three times as long on one side and one with an empty side are gone; a line
    # separator within a sentence does not end it.
    assert lines["train.ro"] == ['Si tara "buna" .', "a b c", "d e"]
    assert lines["train.en"] == ["And a good land.", "a b c", "d e"]
    assert lines["test.ro"] == ["Q&A's"] and len(lines["test.en"]) == 1


@pytest.mark.parametrize("name", ["train.tgz", "more.zip", "test.tgz"])
def test_an_archive_that_is_cut_off_is_named(archives, tmp_path, name):
    table, folder = archives
    path = folder / source(f"https://a.org/{name}").name
    content = path.read_bytes()
    for size in (len(content) // 2, 30, 0):
        path.write_bytes(content[:size])
        with pytest.raises(SourceError, match="(?s)cannot be read.*fetch it again"):
            parallel_text.write(table, folder, tmp_path / "raw", ("ro", "en"))


def test_sides_of_different_length_are_refused(archives, tmp_path):
    table, folder = archives
    changed = tmp_path / "changed.yaml"
    changed.write_text(table.read_text(encoding="utf-8").replace("m.en", "m2.en"), "utf-8")
    with zipfile.ZipFile(folder / source("https://a.org/more.zip").name, "a") as packed:
        packed.writestr("m2.en", "one\n")
    with pytest.raises(SourceError, match="m2.en is shorter"):
        parallel_text.write(changed, folder, tmp_path / "o", ("ro", "en"))
    assert not (tmp_path / "o" / "train.ro").exists()


def generated(path, pairs):
    lines = []
    for number, (wanted, output) in pairs.items():
        lines += [f"S-{number}\tx", f"T-{number}\t{wanted}", f"H-{number}\t-0.5\t{output}",
                  f"D-{number}\t-0.5\t{output}"]  # fmt: skip
    path.write_text("\n".join(lines) + "\nGenerate test: BLEU4 = 1\n", encoding="utf-8")


def test_scores_split_compounds_and_compare_raw_text(tmp_path):
    raw = [tmp_path / "test.en", tmp_path / "test.de"]
    wanted = ["Ein gut-gemachtes Haus, das steht .", "Er sagte &quot; ja &quot; ."]
    raw[0].write_text("s0\ns1\n", encoding="utf-8")
    raw[1].write_text('Ein gut-gemachtes Haus, das steht.\nEr sagte "ja".\n', encoding="utf-8")
    path = tmp_path / "base.gad.out"
    outputs = ["Ein gut-bebautes Haus, das steht .", wanted[1]]
    generated(path, {1: (wanted[1], outputs[1]), 0: (wanted[0], outputs[0])})
    scores = translation_scores.scores(translation_scores.read_output(path), raw, "de")
    assert scores["sentences"] == 2
    assert 100 > scores["bleu"] != scores["bleu_compound"] < 100
    assert scores["sacrebleu_signature"].startswith("nrefs:1|case:mixed")
    generated(path, {0: (wanted[0], wanted[0]), 1: (wanted[1], wanted[1])})
    best = translation_scores.scores(translation_scores.read_output(path), raw, "de")
    assert best["bleu"] == best["bleu_compound"] == pytest.approx(100)
    assert best["sacrebleu"] == pytest.approx(100)


def test_outputs_are_compared_with_greedy_output_of_their_set(tmp_path):
    raw = [tmp_path / "test.en", tmp_path / "test.de"]
    for path in raw:
        path.write_text("s0\n", encoding="utf-8")
    outputs = {
        "base.fairseq_beam_1": "a b c d e",
        "base.specdec": "a b c d f",
        "other.specdec": "a b c d e",
    }
    paths = [tmp_path / f"{name}.out" for name in outputs]
    for path, text in zip(paths, outputs.values()):
        generated(path, {0: ("a b x y", text)})
    arguments = (paths, raw, "de", "", tmp_path / "scores.json")
    translation_scores.write(*arguments)
    scores = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    assert scores["base.fairseq_beam_1"]["bleu_to_greedy"] == pytest.approx(100)
    assert 50 < scores["base.specdec"]["bleu_to_greedy"] < 100
    assert "bleu_to_greedy" not in scores["other.specdec"]
    generated(paths[1], {0: ("a b x y", "a"), 1: ("a", "a")})
    raw[0].write_text("s0\ns1\n", encoding="utf-8")
    raw[1].write_text("s0\ns1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="greedy output has other sentences"):
        translation_scores.write(*arguments)
