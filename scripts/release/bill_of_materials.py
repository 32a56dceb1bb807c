"""What a release consists of, as a CycloneDX bill of materials."""

import importlib.metadata
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from packaging.requirements import Requirement

PACKAGE = "fairseq-specdec"
# What zig links into the native engine's objects.
LINKED = ("libc++", "libc++abi", "libunwind", "compiler-rt")


def normal(name):
    """A project's name as indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def closure(package=PACKAGE):
    """What a package needs here, and what that needs. Returns the names of each one's own
    dependencies, by its name."""
    needs, waiting = {}, [normal(package)]
    while waiting:
        name = waiting.pop()
        if name in needs:
            continue
        required = map(Requirement, importlib.metadata.requires(name) or [])
        kept = [each for each in required if not each.marker or each.marker.evaluate({"extra": ""})]
        needs[name] = sorted({normal(each.name) for each in kept})
        waiting += needs[name]
    return needs


def llvm():
    words = [sys.executable, "-m", "ziglang", "c++", "--version"]
    text = subprocess.check_output(words, text=True)
    match = re.search(r"clang version (\d+\.\d+\.\d+)", text)
    return match.group(1) if match else "unknown"


def environment(seconds):
    """All of this interpreter's environment, by cyclonedx-py."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "environment.json")
        words = ["-m", "cyclonedx_py", "environment", "--output-reproducible", "-o", str(path)]
        subprocess.run(
            [sys.executable, *words, sys.executable],
            env={"SOURCE_DATE_EPOCH": seconds, "PATH": ""},
            check=True,
        )
        return json.loads(path.read_text(encoding="utf-8"))


def bill(everything, needs, version):
    """The part of an environment that the package needs, with what is linked into it."""
    by_name = {}
    for each in everything["components"]:
        each.pop("externalReferences", None)  # folders of this machine
        name = each["bom-ref"] = normal(each["name"])
        if name in needs:
            each.setdefault("purl", f"pkg:pypi/{name}@{each['version']}")
            by_name[name] = each
    package = by_name.pop(PACKAGE)
    linked = [
        {"type": "library", "bom-ref": f"llvm-{name}", "name": name, "version": version}
        for name in LINKED
    ]
    for each in linked:
        each["licenses"] = [{"expression": "Apache-2.0 WITH LLVM-exception"}]
    needs = {**needs, PACKAGE: sorted([*needs[PACKAGE], *(each["bom-ref"] for each in linked)])}
    everything["metadata"]["component"] = package
    everything["components"] = [by_name[name] for name in sorted(by_name)] + linked
    everything["dependencies"] = [
        {"ref": name, "dependsOn": needs[name]} for name in sorted(needs)
    ] + [{"ref": each["bom-ref"]} for each in linked]
    return everything


def written(seconds):
    """The bill of this release, as the text of its file. Raises ModuleNotFoundError: the package,
    or what makes the bill, is not installed here."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    needs = closure()
    text = json.dumps(bill(environment(seconds), needs, llvm()), indent=1, sort_keys=True)
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if error:
        raise ValueError(f"the bill of materials is no CycloneDX: {error}")
    return text + "\n"
