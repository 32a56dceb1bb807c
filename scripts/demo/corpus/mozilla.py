"""Mozilla language packs (.xpi): English (GB) and translated strings, joined by their keys."""

import pathlib
import re
import zipfile

from .catalogs import clean_message, drop_accelerators
from .text import Pair, align_paragraphs, normalise

Key = tuple[str, ...]  # file inside the pack, message id, attribute
PACKS = ("thunderbird", "firefox-esr")
FIREFOX = "Firefox"
BRANDS = {"-vendor-short-name": "Mozilla", "-brand-full-name": "Mozilla Firefox"}


def parse_fluent(text: str, name: str) -> dict[Key, str]:
    """Messages and attributes of a Fluent (.ftl) file."""
    messages: dict[Key, str] = {}
    current: Key | None = None
    identifier = ""
    for line in text.split("\n"):
        message = re.match(r"^(-?[\w-]+)\s*=\s*(.*)$", line)
        attribute = re.match(r"^\s+\.([\w-]+)\s*=\s*(.*)$", line)
        if message:
            identifier = message.group(1)
            current = (name, identifier)
            messages[current] = message.group(2)
        elif attribute:
            current = (name, identifier, attribute.group(1))
            messages[current] = attribute.group(2)
        elif line.startswith("    ") and current:
            messages[current] += "\n" + line.strip()
        elif line.startswith("#"):
            current = None
    return messages


def parse_properties(text: str, name: str) -> dict[Key, str]:
    """Messages of a Java-style .properties file."""
    messages: dict[Key, str] = {}
    for line in text.split("\n"):
        message = re.match(r"^([\w.%@-]+)\s*=\s*(.*)$", line)
        if message:
            value = re.sub(
                r"\\u([0-9a-fA-F]{4})", lambda m: chr(int(m.group(1), 16)), message.group(2)
            )
            messages[(name, message.group(1))] = value.replace("\\n", "\n")
    return messages


def parse_dtd(text: str, name: str) -> dict[Key, str]:
    """Entities of a .dtd file."""
    entities = re.finditer(r'<!ENTITY\s+([\w.-]+)\s+"([^"]*)"', text)
    return {(name, entity.group(1)): entity.group(2) for entity in entities}


PARSERS = {".ftl": parse_fluent, ".properties": parse_properties, ".dtd": parse_dtd}


def read_pack(path: pathlib.Path, language: str) -> dict[Key, str]:
    """All strings of one language pack; file names are freed of the language they hold."""
    messages: dict[Key, str] = {}
    with zipfile.ZipFile(path) as pack:
        for name in pack.namelist():
            parser = PARSERS.get(pathlib.PurePosixPath(name).suffix)
            if parser:
                key = re.sub(rf"\b(en-GB|{language})\b", "L", name)
                messages.update(parser(pack.read(name).decode("utf-8", "replace"), key))
    return messages


def fill_in(text: str) -> str:
    """Replace brand names, literals and variables by what a reader would see."""
    text = re.sub(
        r"\{\s*(-[\w-]+)(?:\([^)]*\))?\s*\}", lambda m: BRANDS.get(m.group(1), FIREFOX), text
    )
    text = re.sub(r'\{\s*"([^"]*)"\s*\}', r"\1", text)
    text = re.sub(r"\{\s*\$(\w+)\s*\}", r"%1", text)
    return text.replace("&brandShortName;", "Thunderbird")


def collect(unpacked: pathlib.Path, language: str) -> list[Pair]:
    """Pairs of the Thunderbird and Firefox packs that are unpacked below `unpacked`."""
    pairs: list[Pair] = []
    for name in PACKS:
        english = sorted((unpacked / f"{name}-l10n-en-gb").rglob("*.xpi"))
        other = sorted((unpacked / f"{name}-l10n-{language}").rglob("*.xpi"))
        if not english or not other:
            continue
        theirs = read_pack(other[0], language)
        for key, text in read_pack(english[0], language).items():
            if key in theirs:
                ours, translated = (
                    normalise(drop_accelerators(clean_message(fill_in(side))))
                    for side in (text, theirs[key])
                )
                pairs += align_paragraphs(ours, translated)
    return pairs
