"""The extractors of the demo corpus, each on a small document of its format."""

import gzip
import io
import struct
import tarfile
import zipfile

import pytest
from corpus import build_edit, catalogs, descriptions, docbook, libreoffice, manpages, mozilla, roff

PAGE = r""".TH LS 1
.\" a comment
.SH {name}
ls \- {purpose}
.SH {heading}
.TP
.BR \-a ", " \-\-all
{option}
.PP
.nf
code is left out
.fi
{last}
"""
ENGLISH = {
    "name": "NAME",
    "purpose": "list directory contents",
    "heading": "OPTIONS",
    "option": "do not ignore entries",
    "last": r"The \fIend\fP of it.",
}
GERMAN = {
    "name": "BEZEICHNUNG",
    "purpose": "Verzeichnisinhalte auflisten",
    "heading": "OPTIONEN",
    "option": r"Eintr\(:age nicht ignorieren",
    "last": "Das Ende davon.",
}


def test_manual_pages_align_by_structure(tmp_path):
    for folder, words in (("man", ENGLISH), ("man/de", GERMAN)):
        path = tmp_path / "usr/share" / folder / "man1" / "ls.1.gz"
        path.parent.mkdir(parents=True)
        page = PAGE
        for key, value in words.items():
            page = page.replace("{" + key + "}", value)
        path.write_bytes(gzip.compress(page.encode("utf-8")))
    pairs = manpages.collect([tmp_path], "de")
    assert ("do not ignore entries", "Einträge nicht ignorieren") in pairs
    assert ("The end of it.", "Das Ende davon.") in pairs
    assert not any("code" in english for english, _ in pairs)


def test_options_are_no_prose():
    assert not manpages.is_good("-a, --all", "-a, --alle", "de")


@pytest.mark.parametrize(
    ("source", "plain"),
    [
        (r"a \fBbold\fR \(lqword\(rq", "a bold “word”"),
        (r"\*(lqquoted\*(rq", '"quoted"'),
        (r"caf\[u00E9] \-x \&.", "café -x ."),
        (r"text \" comment", "text "),
    ],
)
def test_roff_escapes(source, plain):
    assert roff.unroff(source) == plain


def test_roff_arguments():
    assert roff.macro_arguments('one "two words" "a ""b"""') == ["one", "two words", 'a "b"']


def mo_file(entries):
    """A little-endian gettext catalogue."""
    table, body = [], b""
    start = 28 + 16 * len(entries)
    for column in (0, 1):
        for entry in entries:
            text = entry[column].encode("utf-8")
            table.append((len(text), start + len(body)))
            body += text + b"\0"
    head = struct.pack("<IIIIIII", 0x950412DE, 0, len(entries), 28, 28 + 8 * len(entries), 0, start)
    return head + b"".join(struct.pack("<II", *row) for row in table) + body


def test_catalogues_give_singular_and_plural(tmp_path):
    path = tmp_path / "usr/share/locale/de/LC_MESSAGES/x.mo"
    path.parent.mkdir(parents=True)
    entries = [
        ("", "Content-Type: text/plain; charset=UTF-8\n"),
        ("menu\x04_Open the file", "Die Datei ö_ffnen"),
        ("%d file\0%d files", "%d Datei\0%d Dateien"),
    ]
    path.write_bytes(mo_file(entries))
    assert catalogs.collect([tmp_path], "de") == [
        ("Open the file", "Die Datei öffnen"),
        ("%d file", "%d Datei"),
        ("%d files", "%d Dateien"),
    ]
    assert catalogs.collect([tmp_path], "fr") == []


@pytest.mark.parametrize("damage", [lambda data: data[:40], lambda data: b"PK" + data[2:]])
def test_a_damaged_catalogue_is_named(tmp_path, damage):
    path = tmp_path / "de.mo"
    path.write_bytes(damage(mo_file([("", "charset=UTF-8"), ("one thing", "ein Ding")])))
    with pytest.raises(ValueError, match="de.mo"):
        catalogs.collect([tmp_path], "de")


def test_placeholders_must_agree():
    assert catalogs.is_good("Open the file %s now", "Die Datei %s jetzt öffnen", "de")
    assert not catalogs.is_good("Open the file %s now", "Die Datei %d jetzt öffnen", "de")


def test_help_paragraphs_align_by_id():
    page = (
        '<html><div id="DisplayArea"><h1 id="a">{}</h1><p id="b" class="bas">{}</p>'
        '<p id="c" class="code">x=1</p></div><footer><p id="d">no</p></footer></html>'
    )
    assert libreoffice.parse(page.format("Title", "Some <b>bold</b> text.")) == {
        "a": "Title",
        "b": "Some bold text.",
    }


def test_docbook_blocks_align_in_files(tmp_path):
    body = "<article><title>{}</title><para>{}</para><screen>ls</screen></article>"
    for folder, words in (("en", ("Title", "A &kde; text.")), ("de", ("Titel", "Ein KDE-Text."))):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "index.docbook").write_text(body.format(*words), encoding="utf-8")
    assert docbook.collect(tmp_path / "en", tmp_path / "de") == [
        ("Title", "Titel"),
        ("A KDE text.", "Ein KDE-Text."),
    ]


def test_docbook_of_another_structure_gives_only_long_equal_runs():
    same = [("para", str(i)) for i in range(6)]
    assert docbook.align([("title", "t"), *same], same) == [(str(i), str(i)) for i in range(6)]
    assert docbook.align([("title", "t"), *same[:5]], same[:5]) == []


def test_language_packs_join_by_key(tmp_path):
    for language, text in (("en-gb", "Close { -brand-short-name } now"), ("de", "Schließe sie")):
        folder = tmp_path / f"firefox-esr-l10n-{language}"
        folder.mkdir()
        inner = {"en-gb": "en-GB", "de": "de"}[language]
        with zipfile.ZipFile(folder / "pack.xpi", "w") as pack:
            pack.writestr(f"localization/{inner}/a.ftl", f"close =\n    {text}\n")
    assert mozilla.collect(tmp_path, "de") == [("Close Firefox now", "Schließe sie")]


def test_descriptions_align_by_hash_and_kind(tmp_path):
    block = "Package: a\nDescription-md5: 1f\nDescription-{}: {}\n {}\n .\n  * {}\n"
    index = {
        "x_Translation-en": block.format("en", "a tool", "It is good.", "one item"),
        "x_Translation-de": block.format("de", "ein Werkzeug", "Es ist gut.", "ein Punkt"),
    }
    for name, text in index.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    pairs = descriptions.collect(tmp_path, "de", lambda p: p.read_text(encoding="utf-8"))
    assert pairs == [
        ("a tool", "ein Werkzeug"),
        ("It is good.", "Es ist gut."),
        ("one item", "ein Punkt"),
    ]


def test_of_an_npm_package_only_files_inside_it_are_unpacked(tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()

    def pack(command, folder):
        with tarfile.open(folder / "words-1.tgz", "w:gz") as archive:
            for name in (
                "package/words",
                "../above",
                "package/../../above",
                str(tmp_path / "root"),
            ):
                member = tarfile.TarInfo(name)
                member.size = 4
                archive.addfile(member, io.BytesIO(b"text"))
            link = tarfile.TarInfo("package/link")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(link)

    monkeypatch.setattr(build_edit, "require_tools", lambda *_: None)
    monkeypatch.setattr(build_edit, "run", pack)
    folder = build_edit.fetch_npm("words", "1", work)
    assert [path.name for path in folder.iterdir()] == ["words"]
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [
        "words", "words-1.tgz"
    ]  # fmt: skip
