"""noise.py: what each error is, how often it comes, and the corpus whole or absent."""

import collections
import re
import statistics

import noise
import pytest
from hypothesis import given
from hypothesis import strategies as st

SETS = "the\ta\tthis\nfile\tfill\tfiles\ntable\ttables\n\nis\tare\n"


class Known(noise.Confusions):
    """Each word but fox is confused with itself and an x; zebra is inserted."""

    vocabulary, letters = ("zebra",), ("q",)

    def __init__(self):
        pass

    def candidates(self, word):
        return (f"{word}x",) if word != "fox" else ()


def made(number=1, **flags):
    """The errors of a line by these flags."""
    args = noise.get_parser().parse_args(["in", "--dest", "out"])
    vars(args).update(flags)
    return noise.Noise(args, number, Known())


@pytest.fixture
def only(monkeypatch):
    """Change each word in one way, or a share of the words; the flags."""

    def choose(operation, mean=1.0):
        monkeypatch.setattr(noise, "OPERATIONS", {operation: 1.0})
        return {"error_mean": mean, "error_deviation": 0, "spelling": 0}

    return choose


@pytest.mark.parametrize(
    "line, operation, expected",
    [
        ("Ann SAW foxes .", "substitute", "Annx SAWX foxesx ."),
        ("Ann SAW foxes .", "insert", "Ann zebra SAW zebra foxes zebra ."),
        ("Ann SAW foxes .", "delete", "."),
        ("one two", "delete", "one two"),  # never an empty source
        ("fox 12 ... &", "substitute", "fox 12 ... &"),
        ('He said: "foxes!"', "substitute", 'Hex saidx: "foxesx!"'),
        ("a fox, no", "delete", ","),  # a sign outlives its word
        ("ab cd", "swap", "ab cd"),  # each with the other, twice
    ],
)
def test_each_operation_does_what_its_name_describes(only, line, operation, expected):
    assert made(**only(operation)).faulty(line) == expected


@given(st.text(max_size=60), st.integers(0, 5))
def test_any_text_gives_one_line_of_words(text, number):
    result = made(number).faulty(text)
    assert result == " ".join(result.split()) and bool(result) == bool(text.split())
    silent = made(number, error_mean=0, error_deviation=0, spelling=0)
    assert silent.faulty(text) == " ".join(text.split())
    assert made(number).misspelled(text or "a") != ""


def test_errors_come_as_often_as_asked(only):
    seen = collections.Counter()
    line = " ".join(f"w{letter}" for letter in "abcdefghij")  # one error a line
    for number in range(4000):
        errors = made(number, error_mean=0.1, error_deviation=0, spelling=0)
        words = errors.faulty(line).split()
        kind = {9: "delete", 11: "insert"}.get(len(words))
        seen[kind or ("substitute" if any(w.endswith("x") for w in words) else "swap")] += 1
    weights = noise.OPERATIONS
    assert {name: seen[name] / 4000 for name in weights} == pytest.approx(weights, abs=0.02)
    normal = {"error_mean": 0.5, "error_deviation": 0.1}
    shares = [len(made(n, **normal).changes(range(1000))) / 1000 for n in range(999)]
    assert statistics.mean(shares) == pytest.approx(0.5, abs=0.01)
    assert statistics.stdev(shares) == pytest.approx(0.1, abs=0.01)
    spelled = [made(n, error_mean=0, error_deviation=0).faulty("misspelling") for n in range(4000)]
    assert sum(w != "misspelling" for w in spelled) / 4000 == pytest.approx(0.1, abs=0.015)
    flags = dict(only("swap", 0.3), error_deviation=0.1)
    assert all(
        sorted(made(n, **flags).misspelled("scramble")) == list("abcelmrs") for n in range(9)
    )


@pytest.fixture
def run(tmp_path):
    """Run the command on 50 lines, one of them empty; the destination."""
    lines = [f"The file {n} is in the  table cell ." for n in range(50)]
    lines[6] = ""
    (tmp_path / "clean.txt").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "sets.tsv").write_text(SETS)

    def command(name, *flags):
        words = [tmp_path / "clean.txt", "--dest", tmp_path / name / "train"]
        words += ["--confusion-sets", tmp_path / "sets.tsv", *flags]
        noise.cli_main([str(word) for word in words])
        return tmp_path / name

    return command


def corpus(folder):
    return [(folder / f"train.{side}").read_bytes() for side in ("src", "tgt")]


def test_pairs(run, monkeypatch):
    monkeypatch.setattr(noise, "CHUNK", 8)
    folder = run("out")
    faulty, clean = (part.decode("utf-8").splitlines() for part in corpus(folder))
    assert clean == [f"The file {n} is in the table cell ." for n in range(50) if n != 6]
    changed = sum(a != b for a, b in zip(faulty, clean))
    assert 20 < changed < 49 and len(set(faulty)) > 40
    assert corpus(run("two", "--workers", 2)) == corpus(folder)
    assert corpus(run("other", "--seed", 2))[0] != corpus(folder)[0]


@pytest.mark.parametrize(
    "file, content, flags, why",
    [
        ("", b"", ["--error-mean", "nan"], "--error-mean nan: must be from 0 to 1"),
        ("sets.tsv", b"dass\tdas\nallein\n", [], "--confusion-sets: .*line 2: expected a word"),
        ("sets.tsv", b"the\t\xff\n", [], ".*sets.tsv: is not UTF-8"),
        ("clean.txt", b"fine\n\xff\xfe\n", ["--workers", 2], ".*clean.txt: is not UTF-8"),
        ("clean.txt", b"", [], "input: .* is empty"),
    ],
)
def test_mistakes_are_named_and_leave_nothing(run, tmp_path, file, content, flags, why):
    if file:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(SystemExit, match=re.compile(f"noise.py: error: {why}")):
        run("out", *flags)
    assert not list(tmp_path.glob("out/*"))
