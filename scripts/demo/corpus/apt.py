"""Fetch and unpack Debian packages through a private apt configuration; /etc is never changed."""

import logging
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Sequence

from fairseq_specdec.io.progress import erased_bar as bar

logger = logging.getLogger(__name__)

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
DEFAULT_MIRROR = "http://deb.debian.org/debian"
APT_HELPER = "/usr/lib/apt/apt-helper"
OWN_TEXT = (
    "to train on text of your own instead, set EN_FILE and DE_FILE (one sentence a line, line n "
    "of one file translating line n of the other)"
)
# What the extractors read; the rest of a package stays packed.
WANTED = ("*.mo", "*.html", "*.docbook", "*.page", "*.xpi", "*/man/*.gz")


class FetchError(ValueError):
    """Packages cannot be fetched or unpacked; the message holds the remedy."""


def require_tools(*tools: str) -> None:
    """Check that programs are installed."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        raise FetchError(
            f"{', '.join(missing)} not found: the demo corpus is made from Debian packages and "
            f"needs a Debian or Ubuntu machine with these tools (apt install apt dpkg npm tar); "
            f"{OWN_TEXT}"
        )


def system_mirror(etc: pathlib.Path = pathlib.Path("/etc/apt")) -> str:
    """The Debian mirror that this system already uses, else Debian's own."""
    parts = etc / "sources.list.d"
    candidates = sorted(parts.glob("*.sources")) + [etc / "sources.list"]
    for path in candidates + sorted(parts.glob("*.list")):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            for uri in re.findall(r"^(?:URIs:\s*|deb\s+(?:\[[^]]*\]\s*)?)(\S+)", text, re.M):
                if "debian" in uri and "security" not in uri:
                    return uri
    return DEFAULT_MIRROR


class PrivateApt:
    """apt with its lists, cache and sources below one folder. ``suites``: Debian suites,
    blank-separated. ``languages``: of the package descriptions, e.g. ("en", "de")."""

    def __init__(self, folder: pathlib.Path, suites: str, languages: Sequence[str]) -> None:
        require_tools("apt-get", "apt-cache", "dpkg-deb", "tar")
        self.folder = folder.resolve()
        self.lists = self.folder / "apt" / "lists"
        self.debs = self.folder / "debs"
        self.unpacked = self.folder / "unpacked"
        self._environment = self._configure(suites)
        logger.info("reading the package index of %s", suites)
        self._run(["apt-get", "-q", "-o", f"Acquire::Languages={','.join(languages)}", "update"])
        if not list(self.lists.glob("*_Packages*")):
            raise FetchError(f"apt-get update fetched no index of '{suites}': check the network")

    def _configure(self, suites: str) -> dict[str, str]:
        root = self.folder / "apt"
        for name in ("lists/partial", "cache/archives/partial", "parts"):
            (root / name).mkdir(parents=True, exist_ok=True)
        self.debs.mkdir(exist_ok=True)
        self.unpacked.mkdir(exist_ok=True)
        (root / "parts" / "demo.sources").write_text(
            f"Types: deb\nURIs: {system_mirror()}\nSuites: {suites}\nComponents: main\n"
            f"Signed-By: {KEYRING}\n",
            encoding="utf-8",
        )
        configuration = root / "apt.conf"
        configuration.write_text(
            f'Dir::Etc::sourcelist "/dev/null";\nDir::Etc::sourceparts "{root}/parts";\n'
            f'Dir::State::lists "{root}/lists";\nDir::Cache "{root}/cache";\n'
            'APT::Sandbox::User "root";\n',
            encoding="utf-8",
        )
        return dict(os.environ, APT_CONFIG=str(configuration))

    def _run(self, command: list[str], cwd: pathlib.Path = pathlib.Path(".")) -> str:
        done = subprocess.run(
            command, env=self._environment, cwd=cwd, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        if done.returncode:
            tail = done.stdout[-2000:].strip()
            shown = " ".join(command[:4])
            raise FetchError(f"{shown} failed: {tail}\ncheck the network; {OWN_TEXT}")
        return done.stdout

    def read_index(self, path: pathlib.Path) -> str:
        """Text of an index file in whatever compression apt keeps it."""
        done = subprocess.run([APT_HELPER, "cat-file", str(path)], stdout=subprocess.PIPE)
        if done.returncode:
            raise FetchError(f"{APT_HELPER} cannot read {path}; delete that file and retry")
        return done.stdout.decode("utf-8", "replace")

    def fetch(self, names: Sequence[str]) -> list[pathlib.Path]:
        """Download and unpack packages, one after the other; what is there already stays. Returns
        one folder a package, in the order of `names`."""
        known = self._known(names)
        for name in names:
            if name not in known:
                logger.warning("%s is in none of the suites; left out", name)
        roots = []
        for name in bar([name for name in names if name in known], "fetching", unit="package"):
            roots.append(self._unpack(name, self._download(name)))
        return roots

    def _known(self, names: Sequence[str]) -> dict[str, bool]:
        # apt-cache exits 100 when a single name is unknown, and still prints the others.
        done = subprocess.run(
            ["apt-cache", "show", "--no-all-versions", *names],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        known = dict.fromkeys(re.findall(r"^Package: (\S+)", done.stdout, re.M), True)
        if not known:
            raise FetchError(f"the package index knows none of {len(names)} packages; {OWN_TEXT}")
        return known

    def _download(self, name: str) -> pathlib.Path:
        archives = sorted(self.debs.glob(f"{name}_*.deb"))
        if not archives:
            partial = self.debs / "partial"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            self._run(["apt-get", "-q", "download", name], cwd=partial)
            for archive in partial.glob("*.deb"):
                archive.rename(self.debs / archive.name)
            partial.rmdir()
            archives = sorted(self.debs.glob(f"{name}_*.deb"))
        if not archives:
            raise FetchError(f"apt-get download {name} left no archive in {self.debs}; retry")
        return archives[0]

    def _unpack(self, name: str, archive: pathlib.Path) -> pathlib.Path:
        root = self.unpacked / name
        if root.is_dir():
            return root
        partial = self.unpacked / (name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        packed = subprocess.Popen(
            ["dpkg-deb", "--fsys-tarfile", str(archive)], stdout=subprocess.PIPE
        )
        # tar exits 2 when a pattern matches nothing, which is no fault here.
        subprocess.run(
            ["tar", "-x", "-C", str(partial), "--wildcards", "--no-anchored", *WANTED],
            stdin=packed.stdout,
            stderr=subprocess.DEVNULL,
        )
        if packed.stdout is not None:
            packed.stdout.close()
        if packed.wait():
            raise FetchError(f"dpkg-deb cannot unpack {archive}; delete that file and retry")
        partial.rename(root)
        return root
