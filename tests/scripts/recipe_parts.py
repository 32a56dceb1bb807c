"""What the tests of recipes share: where the scripts are, sentences, commands that stand in."""

import pathlib

import yaml

REPO = pathlib.Path(__file__).resolve().parents[2]


def sources_file(path, sources):
    """A recipe's YAML with these (split, url, checksum, licence, one, other)."""
    names = ("split", "url", "checksum", "licence")
    listed = [{**dict(zip(names, each)), "files": list(each[4:])} for each in sources]
    path.write_text(yaml.safe_dump({"sources": listed}), encoding="utf-8")
    return path


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

# Stands for each of the commands: notes its words, and leaves the files that the steps go on with.
STAND_IN = r"""#!/usr/bin/env bash
name=${0##*/}
printf '%q ' "$name" "$@" >> "$CALLS"
printf '\n' >> "$CALLS"
words=("$@")
for ((i = 0; i < $#; i++)); do
    case $name:${words[i]} in
        specdec-distill:--dest)
            mkdir -p "${words[i + 1]}"
            cp "$1"/* "${words[i + 1]}"
            ;;
        specdec-bench:--json | specdec-bench:--markdown) printf 'table\n' > "${words[i + 1]}" ;;
    esac
done
case $name in fairseq-generate) printf 'INFO | task | strategy %s: summary\n' "$name" >&2 ;; esac
"""
# Stands for the interpreter, beside which the steps look for the commands first.
STAND_IN_PYTHON = """#!/usr/bin/env bash
case $1 in
    */average_checkpoints.py) printf '%s\\n' "$*" > "${{!#}}" ;;
    *) exec {} "$@" ;;
esac
"""
