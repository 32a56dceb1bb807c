"""The extractors of the demo corpus, each on a small document of its format."""

import gzip
import struct

import pytest
from corpus import catalogs, docbook, libreoffice, manpages, roff

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


HELP = (
    '<html><div id="DisplayArea"><h1 id="a">{}</h1><p id="b" class="bas">{}</p>'
    '<p id="c" class="code">x=1</p></div><footer><p id="d">no</p></footer></html>'
)
DOCBOOK = "<article><title>{}</title><para>{}</para><screen>ls</screen></article>"


@pytest.mark.parametrize(
    "module, name, page", [(libreoffice, "x.html", HELP), (docbook, "x.docbook", DOCBOOK)]
)
def test_pages_align_paragraph_by_paragraph(tmp_path, module, name, page):
    english, german = ("Title", "Some <b>bold</b> text."), ("Titel", "Fetter Text.")
    for folder, words in (("en", english), ("de", german)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(page.format(*words), encoding="utf-8")
    pairs = module.collect(tmp_path / "en", tmp_path / "de")
    assert pairs == [("Title", "Titel"), ("Some bold text.", "Fetter Text.")]


def test_docbook_of_another_structure_gives_only_long_equal_runs():
    same = [("para", str(i)) for i in range(6)]
    assert docbook.align([("title", "t"), *same], same) == [(str(i), str(i)) for i in range(6)]
    assert docbook.align([("title", "t"), *same[:5]], same[:5]) == []
