"""What the tests of recipes share: where the scripts are, sentences, lists of sources, archives."""

import io
import pathlib
import tarfile

import yaml

REPO = pathlib.Path(__file__).resolve().parents[2]


def sources_file(path, sources):
    """A recipe's YAML with these (split, url, checksum, licence, one, other)."""
    names = ("split", "url", "checksum", "licence")
    listed = [{**dict(zip(names, each)), "files": list(each[4:])} for each in sources]
    path.write_text(yaml.safe_dump({"sources": listed}), encoding="utf-8")
    return path


def archive(path, files):
    """A .tgz or .tar.bz2 of these texts."""
    mode = "w:bz2" if path.name.endswith("bz2") else "w:gz"
    with tarfile.open(str(path), mode) as out:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            content = text.encode("utf-8")
            info.size = len(content)
            out.addfile(info, io.BytesIO(content))


NOUNS = [("file", "Datei"), ("page", "Seite"), ("list", "Liste"), ("line", "Zeile")]
VERBS = [("opens", "öffnet"), ("closes", "schließt"), ("reads", "liest"), ("shows", "zeigt")]
NAMES = ["Anna", "Boris", "Clara", "David", "Emma", "Frank", "Greta", "Hans", "Ida", "Jonas"]

# The example of the documentation of the official scorer.
OFFICIAL = """S The cat sat at mat .
A 3 4|||Prep|||on|||REQUIRED|||-NONE-|||0
A 4 4|||ArtOrDet|||the||a|||REQUIRED|||-NONE-|||0

S The dog .
A 1 2|||NN|||dogs|||REQUIRED|||-NONE-|||0
A -1 -1|||noop|||-NONE-|||-NONE-|||-NONE-|||1

S Giant otters is an apex predator .
A 2 3|||SVA|||are|||REQUIRED|||-NONE-|||0
A 3 4|||ArtOrDet|||-NONE-|||REQUIRED|||-NONE-|||0
A 5 6|||NN|||predators|||REQUIRED|||-NONE-|||0
A 1 2|||NN|||otter|||REQUIRED|||-NONE-|||1

"""
SYSTEM = ["A cat sat on the mat .", "The dog .", "Giant otters are apex predator ."]
