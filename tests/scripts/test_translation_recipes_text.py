"""What the translation recipes fetch, read and score."""

import functools
import hashlib
import http.server
import io
import json
import tarfile
import threading
import zipfile

import fetch
import paper_table
import parallel_text
import pytest
import translation_scores
from fetch import Source, SourceError

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
    return Source("train", url, checksum, "public domain", "a", "b")


def fetch_all(sources, folder):
    table = folder.with_name(f"{folder.name}.tsv")
    table.write_text("".join("\t".join(each) + "\n" for each in sources))
    fetch.fetch(table, folder)


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


def tgz(path, files):
    with tarfile.open(str(path), "w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            content = text.encode("utf-8")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


@pytest.fixture
def archives(tmp_path):
    """Three archives, and the sources.tsv that names them."""
    folder = tmp_path / "archives"
    folder.mkdir()
    urls = {name: f"https://a.org/{name}" for name in ("train.tgz", "more.zip", "test.tgz")}
    places = {name: folder / source(url).name for name, url in urls.items()}
    tgz(
        places["train.tgz"],
        {
            "t/train.tags.ro-en.ro": "<url>x</url>\nŞi ţara\u00ad «bună» .\n<title>t</title>\n"
            "unu\n",
            "t/train.tags.ro-en.en": "<url>x</url>\nAnd a good land.\n<title>t</title>\n"
            + "one two three\n",
        },
    )
    with zipfile.ZipFile(places["more.zip"], "w") as archive:
        archive.writestr("m.ro", "a\u2028b c\n\nd e\n")
        archive.writestr("m.en", "a b c\nnothing\nd  e\n")
    tgz(
        places["test.tgz"],
        {
            "t.ro.sgm": '<doc>\n<seg id="1"> Q&amp;A’s </seg>\n</doc>\n',
            "t.en.sgm": '<doc>\n<seg id="1">a much longer line than the other one</seg>\n</doc>\n',
        },
    )
    lines = [
        ("train", "train.tgz", "t/train.tags.ro-en.ro", "t/train.tags.ro-en.en"),
        ("train", "more.zip", "m.ro", "m.en"),
        ("test", "test.tgz", "t.ro.sgm", "t.en.sgm"),
    ]
    table = tmp_path / "sources.tsv"
    table.write_text(
        "# comment\n"
        + "".join(f"{s}\t{urls[a]}\t-\tfree\t{one}\t{two}\n" for s, a, one, two in lines),
        encoding="utf-8",
    )
    return table, folder


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
    text = table.read_text(encoding="utf-8").replace("m.ro\tm.en", "m.ro\tm2.en")
    table.write_text(text, encoding="utf-8")
    with zipfile.ZipFile(folder / source("https://a.org/more.zip").name, "a") as archive:
        archive.writestr("m2.en", "one\n")
    with pytest.raises(SourceError, match="m2.en is shorter"):
        parallel_text.write(table, folder, tmp_path / "o", ("ro", "en"))
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
    assert (
        scores["bleu"] != scores["bleu_compound"]
        and max(scores["bleu_compound"], scores["bleu"]) < 100
    )
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


def test_tables_set_our_figures_beside_the_papers(tmp_path):
    (tmp_path / "paper.tsv").write_text(
        "# comment\n"
        "Ge et al. Table 5\ten-de\tGAD\tbase\tgad\titer=4.9 bleu=28.73\n"
        "Ge et al. Table 5\ten-de\tGAD++\tbase\tgad++\titer=4.0 bleu=28.89\n"
        "Ge et al. Table 5\ten-de\tNAR drafter\t-\t-\titer=1.6 bleu=26.48\n"
        "Xia et al. Table 8\ten-de\tGAD\tbase\tgad\tmemory_mb@4=519.8 ms.drafter= "
        "ms_iter.drafter=0.31 share.drafter= text.sacrebleu=28.2\n"
        "Ge et al. Table 5\tde-en\tGAD\tbase\tgad\tbleu=32.18\n",
        encoding="utf-8",
    )
    row = {"system": "gad", "iter": 5.0, "bleu": 20.5, "speed_beam5": 24.8, "speed_greedy": 1.2}
    greedy = {"system": "greedy", "iter": 27.0, "ms_by_section": None}
    greedy.update(speed_beam5=20.6, speed_greedy=1.0)
    row["ms_by_section"] = {"drafter": 1.5, "verifier": 2.5, "rest": 1.0}
    run = {
        "runs": [
            {"batch_size": 1, "rows": [greedy, row]},
            {"batch_size": 4, "rows": [dict(row, memory_mb=77.0)]},
        ],
        "provenance": {
            "machine": {"device": "a toy"}, "threads": 1, "versions": {}, "commit": "abc",
        },
    }  # fmt: skip
    (tmp_path / "base.json").write_text(json.dumps(run), encoding="utf-8")
    scores = tmp_path / "scores.json"
    scores.write_text('{"base.gad": {"sacrebleu": 19.25}}', encoding="utf-8")
    output = tmp_path / "tables.md"
    paper_table.write(tmp_path / "paper.tsv", tmp_path, scores, "en-de", "toy", output)
    text = output.read_text(encoding="utf-8")
    cells = [
        [c.strip() for c in line.split("|")[1:-1]] for line in text.splitlines() if "|" in line
    ]
    ratios = ["speed vs beam 5 here", "speed vs this engine's greedy here"]
    assert cells[0] == ["row", "Iter. here", "paper", "BLEU here", "paper", *ratios]
    assert cells[2:6] == [
        [paper_table.GREEDY_ROW, "27.00", "-", "not run", "-", "20.60", "1.00"],
        ["GAD", "5.00", "4.9", "20.50", "28.73", "24.80", "1.20"],
        ["GAD++", "not run", "4.0", "not run", "28.89", "not run", "not run"],
        ["NAR drafter", "not run", "1.6", "not run", "26.48", "-", "-"],
    ]
    assert cells[6][3:11:2] == [
        "ms, drafter here",
        "ms, drafter, an iteration here",
        "% of time, drafter here",
        "sacreBLEU here",
    ]
    assert cells[8][0] == paper_table.GREEDY_ROW
    assert cells[9] == [
        "GAD", "77.00", "519.8", "1.50", "-", "0.30", "0.31", "30.00", "-", "19.25", "28.2",
        "24.80", "1.20",
    ]  # fmt: skip
    assert "32.18" not in text and "- base: device a toy" in text and "- toy" in text
