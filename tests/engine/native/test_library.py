"""Finding, checking and loading the native engine: what is wrong ends in a line, no crash."""

import ctypes
import logging
import platform
import re
import shutil
import subprocess
import threading
from typing import ClassVar

import pytest

from fairseq_specdec.engine.native import library, structures
from fairseq_specdec.engine.native.variants import PROBE, SEAL_SIZE, VARIANTS, digest, seal


@pytest.fixture
def folder(built, tmp_path):
    """A copy of the probe and of all objects."""
    for name in (PROBE, *(each.file for each in VARIANTS)):
        if (library.FOLDER / name).exists():
            shutil.copy(str(library.FOLDER / name), str(tmp_path))
    return tmp_path


@pytest.fixture
def fresh(monkeypatch):
    """load() as a new process would find it."""
    monkeypatch.setattr(library, "loaded", {})
    monkeypatch.delenv(library.ENVIRONMENT, raising=False)


def objects(folder):
    return [folder / each.file for each in VARIANTS if (folder / each.file).exists()]


def test_the_best_supported_variant_is_loaded(folder):
    supported = [each.name for each in library.supported(folder)]
    built = [each.name for each in VARIANTS if (folder / each.file).exists()]
    expected = [name for name in supported if name in built][-1]
    assert library._search("", folder).library.variant == expected


def test_threads_are_set_when_it_is_loaded(folder, monkeypatch):
    counts = []
    monkeypatch.setattr(library, "threads_wanted", lambda environment: 5)
    monkeypatch.setattr(library.Library, "set_threads", lambda self, count: counts.append(count))
    library._search("", folder)
    assert counts == [5]


def test_one_library_for_all_threads(built, fresh):
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(library.load())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8 and answers[0] is not None and len(set(map(id, answers))) == 1
    assert library.why_not() == ""


def test_a_variant_by_name(loaded, fresh, monkeypatch):
    monkeypatch.setenv(library.ENVIRONMENT, loaded.variant)
    assert library.load().variant == loaded.variant


def test_off(fresh, monkeypatch):
    monkeypatch.setenv(library.ENVIRONMENT, "off")
    assert library.load() is None and library.why_not() == "FAIRSEQ_SPECDEC_NATIVE is off"


def test_an_unknown_name_is_refused(fresh, monkeypatch):
    monkeypatch.setenv(library.ENVIRONMENT, "sse2")
    with pytest.raises(ValueError, match=r"^FAIRSEQ_SPECDEC_NATIVE=sse2: choose off or one of x86"):
        library.load()


def test_a_variant_that_is_not_built_is_refused(folder):
    (missing,) = [each for each in VARIANTS if each.name.startswith("aarch64_")]
    if (folder / missing.file).exists():
        missing = VARIANTS[0]
        (folder / missing.file).unlink()
    with pytest.raises(ValueError, match="is not built, or not for this processor"):
        library._search(missing.name, folder)


def test_nothing_built(tmp_path):
    search = library._search("", tmp_path)
    assert search.library is None and search.why_not == library.not_built(tmp_path)
    assert "install fairseq_specdec again" in search.why_not  # no checkout
    with pytest.raises(ValueError, match="it was not built"):
        library._search(VARIANTS[0].name, tmp_path)


def test_a_processor_that_runs_none_loads_none(folder, monkeypatch):
    monkeypatch.setattr(library, "supported", lambda folder: [])
    monkeypatch.setattr(library, "Library", None)  # no object may be touched
    search = library._search("", folder)
    assert search.library is None and "suits this processor" in search.why_not


def test_objects_that_the_probe_does_not_allow_are_left_alone(folder, monkeypatch):
    """However good they are: their first instruction might be one that the processor lacks."""
    first = library.supported(folder)[0]
    monkeypatch.setattr(library, "supported", lambda folder: [first])
    for path in objects(folder):
        if path.name != first.file:
            path.write_bytes(b"must not be opened")
    assert library._search("", folder).library.variant == first.name


def spoil(path, kind):
    content = path.read_bytes()
    if kind == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif kind == "one bit":
        middle = len(content) // 2
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "stripped":
        path.write_bytes(content[:-SEAL_SIZE])
    elif kind == "text":
        path.write_text("no object\n")
        seal(path)
    elif kind == "foreign":
        shutil.copy(str(library.FOLDER / PROBE), str(path))
    else:
        path.unlink()
        path.mkdir()


KINDS = ("cut", "one bit", "empty", "stripped", "text", "foreign", "folder")


@pytest.mark.parametrize("kind", KINDS)
def test_a_spoiled_object_is_one_warning_and_the_next_is_taken(folder, kind, caplog):
    supported = [each.file for each in library.supported(folder)]
    names = [path.name for path in objects(folder) if path.name in supported]
    spoil(folder / names[-1], kind)
    with caplog.at_level(logging.WARNING):
        search = library._search("", folder)
    (record,) = caplog.records
    message = record.getMessage()
    assert str(folder / names[-1]) in message and message.endswith(library.REMEDY)
    assert "\n" not in message
    if len(names) > 1:
        assert search.library.variant == names[-2][1:-3]
    else:
        assert search.library is None and search.why_not in message


@pytest.mark.parametrize("kind", KINDS)
def test_all_spoiled_is_no_library_and_a_reason(folder, kind):
    for path in objects(folder):
        spoil(path, kind)
    search = library._search("", folder)
    assert search.library is None and search.why_not.endswith(library.REMEDY)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "foreign"])
def test_a_spoiled_probe_allows_nothing(folder, kind, caplog):
    spoil(folder / PROBE, kind)
    with caplog.at_level(logging.WARNING):
        search = library._search("", folder)
    assert search.library is None and len(caplog.records) == 1


def test_another_release_is_refused(folder, monkeypatch):
    monkeypatch.setattr(library, "__version__", "99.1")
    search = library._search("", folder)
    assert search.library is None and "the package is 99.1" in search.why_not


def test_structures_of_other_sizes_are_refused(folder, monkeypatch):
    class Grown(structures.BeamFacts):
        _fields_: ClassVar = [("more", ctypes.c_int64)]

    for changed in ({"BeamFacts": Grown}, {"Unknown": Grown}):
        monkeypatch.setattr(library, "STRUCTURES", dict(structures.STRUCTURES, **changed))
        search = library._search("", folder)
        (name,) = changed
        assert search.library is None
        assert f"has other structures than this package: {name};" in search.why_not


# ctypes' types, by what C++ calls them; all pointers are one.
TYPES = {
    "int": ctypes.c_int,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "*": ctypes.c_void_p,
}


def sources():
    code = "".join(path.read_text() for path in sorted((library.FOLDER / "src").glob("*.*")))
    return re.sub(r"\s+", " ", re.sub(r"//[^\n]*", "", code))


def named_type(words):
    """A ctypes type for ``const float* x``, and x."""
    kind, name = re.fullmatch(
        r"(?:const )?(?:specdec::)?(\w+\*{0,2}) ?(\w+)", words.strip()
    ).groups()
    return name, TYPES.get("*" if "*" in kind else kind) or structures.STRUCTURES[kind]


def is_pointer(kind):
    return kind is ctypes.c_void_p or hasattr(kind, "contents")


@pytest.mark.parametrize("name", structures.STRUCTURES)
def test_structures_have_the_fields_of_the_sources(name):
    (body,) = re.findall(rf"\bstruct {name} {{(.*?)}};", sources())
    wanted = []
    for line in re.sub(r"\w[^;{}]*\([^;]*;", "", body).split(";")[:-1]:
        first, *more = line.split(",")
        field, kind = named_type(first)
        wanted += [(field, kind), *((each.strip(), kind) for each in more)]
    fields = structures.STRUCTURES[name]._fields_
    assert [field for field, _ in fields] == [field for field, _ in wanted]
    for (_, mine), (_, theirs) in zip(fields, wanted):
        assert mine is theirs or (is_pointer(mine) and is_pointer(theirs))


def test_entry_points_have_the_arguments_of_the_sources():
    declared = re.findall(r"SPECDEC_API (?:int|void) (specdec_\w+)\(([^)]*)\)", sources())
    assert {name for name, _ in declared} == set(library.SIGNATURES)
    for name, arguments in declared:
        wanted = [named_type(each)[1] for each in arguments.split(",")]
        mine = library.SIGNATURES[name]
        assert len(mine) == len(wanted), name
        for one, other in zip(mine, wanted):
            assert one is other or (is_pointer(one) and is_pointer(other)), name


def test_objects_older_than_their_sources_are_refused(folder, monkeypatch):
    """Where there are sources: a wheel has none."""
    monkeypatch.setattr(library, "FOLDER", folder)
    assert library._search("", folder).library is not None
    (folder / "src").mkdir()
    (folder / "src" / "engine.cpp").write_text("int changed;")
    search = library._search("", folder)
    assert search.library is None and "is older than its sources" in search.why_not


def test_the_digest_heeds_names_and_contents(tmp_path):
    (tmp_path / "a.h").write_text("1")
    first = digest(tmp_path)
    (tmp_path / "notes.txt").write_text("1")
    assert digest(tmp_path) == first
    (tmp_path / "a.h").write_text("2")
    second = digest(tmp_path)
    (tmp_path / "a.h").rename(tmp_path / "b.h")
    assert len({first, second, digest(tmp_path)}) == 3


def test_errors_are_those_of_the_calling_thread(loaded):
    """What another thread's call says meanwhile is not heard here."""

    def fail(columns, form):
        with pytest.raises(ValueError) as raised:
            loaded.call("specdec_matrix_new", 4, columns, bytes(16), 0, None, form, b"")
        return str(raised.value)

    first_error = fail(0, 0)
    other = threading.Thread(target=fail, args=[1, 9])
    other.start()
    other.join()
    assert loaded._handle.specdec_error().decode() == first_error != fail(1, 9)


def longest_chain(listing, instruction, apart=6):
    """Most instructions of a kind in a disassembly, each at most so far from the one before."""
    longest = chain = since = 0
    for line in listing.splitlines():
        since += 1
        if instruction in line:
            chain = chain + 1 if since <= apart else 1
            since, longest = 0, max(longest, chain)
    return longest


def innermost_loops(listing):
    """Instructions of each loop without a jump back inside, of a disassembly."""
    lines = [line.split("\t") for line in listing.splitlines() if line.count("\t") == 1]
    code = [(int(address.strip(" :"), 16), text) for address, text in lines]
    place = {address: i for i, (address, _) in enumerate(code)}
    last = -1  # jump back
    for i, (_, text) in enumerate(code):
        target = re.match(r"j\w+ +([0-9a-f]+)", text)
        first = place.get(int(target[1], 16), i + 1) if target else i + 1
        if first > i:
            continue
        if first > last:
            yield [text for _, text in code[first : i + 1]]
        last = i


needs_objdump = pytest.mark.skipif(
    shutil.which("objdump") is None or platform.machine() != "x86_64",
    reason="needs objdump and x86-64",
)


@pytest.fixture(scope="module")
def avx2(built):
    """The disassembly of the variant for AVX2."""
    command = ["objdump", "-d", "--no-show-raw-insn", str(library.FOLDER / "_x86_64_v3.so")]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.decode()


@needs_objdump
def test_no_vector_is_compared_number_by_number(avx2):
    """GCC compares a vector wider than the registers so: 15 scalar comparisons in a row once."""
    assert 0 < longest_chain(avx2, "comiss") < 8


@needs_objdump
def test_sums_of_halves_stay_in_registers(avx2):
    """A tile that keeps one of its sums in memory waits for it: 18 cycles, not 12."""
    loops = [body for body in innermost_loops(avx2) if any("vcvtph2ps" in text for text in body)]
    loops = [body for body in loops if any("vfmadd" in text for text in body)]
    assert len(loops) > 6
    assert not [text for body in loops for text in body if re.match(r"vmov\w+ +%ymm\d+,.*\(", text)]
