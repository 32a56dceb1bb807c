"""``specdec-convert pack``: the same bits from a file that is mapped; anything else is refused."""

import pathlib

import pytest
import torch
from toy_pair import text_of, write_pair
from toy_translation import sentences

from fairseq_specdec.checkpoints.reading import load_checkpoint
from fairseq_specdec.conversion import cli
from fairseq_specdec.drafting import twin
from fairseq_specdec.engine.native import library, packed_file
from fairseq_specdec.hub import SpeculativeTranslator

TEXTS = [text_of(sentence) for sentence in sentences(12, seed=5)]
FORMATS = ("fp32", "bf16", "int8", "int7")


@pytest.fixture(scope="module")
def pair(tmp_path_factory, with_library):
    folder = write_pair(tmp_path_factory.mktemp("pack"))
    for number_format in FORMATS:
        run(folder / "verifier.pt", folder / f"{number_format}.pt", number_format)
    for number_format in ("fp32", "bf16"):
        path = folder / f"{number_format}-twin.pt"
        run(folder / "verifier.pt", path, number_format, "--twin", "int8")
    return folder


def run(source, target, number_format="fp32", *more):
    words = ["pack", str(source), str(target), "--verifier-dtype", number_format, *more]
    cli.main(cli.get_parser().parse_args(words))


def translator(path, number_format="fp32", **flags):
    flags = {"strategy": "greedy", "verifier_dtype": number_format, **flags}
    return SpeculativeTranslator.from_pretrained(
        path, bpe=None, tokenizer=None, device="cpu", **flags
    )


def decoded(path, number_format, **flags):
    with translator(path, number_format, **flags) as loaded:
        return [(each.text, each.scores) for each in loaded.translate(TEXTS)]


@pytest.fixture
def packs_nothing(monkeypatch):
    """After it is called, packing is an error."""

    def never(*args, **kwargs):
        raise AssertionError("packed")

    return lambda: monkeypatch.setattr(packed_file.NativeLinear, "__init__", never)


@pytest.mark.parametrize("number_format, beam", [*zip(FORMATS, (1, 3, 3, 1))])
def test_the_bits_are_those_of_the_checkpoint(pair, number_format, beam, packs_nothing):
    """And nothing is packed again."""
    plain = decoded(pair / "verifier.pt", number_format, beam=beam)
    packs_nothing()
    assert decoded(pair / f"{number_format}.pt", number_format, beam=beam) == plain
    assert len({text for text, _ in plain}) > 6


@pytest.mark.parametrize("number_format", ["fp32", "bf16"])
def test_a_packed_twin_drafts_the_same(pair, number_format, packs_nothing, monkeypatch, caplog):
    """A file in bf16 without a twin decodes without one, and says so."""
    monkeypatch.setattr(twin, "_SMALLEST", 0)
    monkeypatch.setattr(twin, "memory_left", lambda: None)

    def drafted(name, **flags):
        with translator(pair / f"{name}.pt", number_format, **flags) as loaded:
            found = [(each.text, each.scores) for each in loaded.translate(TEXTS)]
            return found, loaded.stats.drafted, loaded.stats.accepted

    plain = drafted("verifier", twin="none")[0]
    unpacked = drafted("verifier", twin="int8")
    assert unpacked[0] == plain and unpacked[2] > 0
    if number_format == "bf16":
        assert drafted("bf16") == drafted("bf16", twin="int8") == (plain, 0, 0)
        assert "no twin drafts: weights that round need specdec-convert pack" in caplog.text
    packs_nothing()
    assert drafted(f"{number_format}-twin", twin="int8") == unpacked
    assert drafted(f"{number_format}-twin", twin="none") == (plain, 0, 0)


def test_the_file_describes_itself_and_is_mapped(pair):
    """What is packed is not held twice."""
    with translator(pair / "fp32.pt") as loaded:
        loaded.translate(TEXTS[0])
        assert str(pair / "fp32.pt") in pathlib.Path("/proc/self/maps").read_text()
    state = load_checkpoint(str(pair / "int8.pt"))
    held = state[packed_file.KEY]
    assert (held["variant"], held["number_format"]) == (library.load().variant, "int8")
    names = {
        f"{name}.weight" for each in held["matrices"] for row in each["modules"] for name in row
    }
    assert names.isdisjoint(state["model"])


@pytest.fixture(scope="module")
def small(pair):
    """A smaller model of the dictionaries, by its number format, packed."""
    for number_format in ("fp32", "int8"):
        run(pair / "other.pt", pair / f"small-{number_format}.pt", number_format)
    return {each: pair / f"small-{each}.pt" for each in ("fp32", "int8")}


def drafted(path, drafter, number_format="fp32", **flags):
    flags = {"strategy": "sps", "drafter": drafter, "draft_budget": 0, **flags}
    with translator(path, number_format, **flags) as loaded:
        made = loaded.translate(TEXTS)
    return [(each.text, each.scores) for each in made], sum(each.iterations for each in made)


@pytest.mark.parametrize(
    "number_format, packed_in, asked",
    [("fp32", "fp32", "auto"), ("int8", "int8", "auto"), ("fp32", "int8", "int8")],
)
def test_a_packed_pair_drafts_the_same(pair, small, number_format, packed_in, asked, packs_nothing):
    """``auto`` is the format that the drafter was packed in."""
    given = (pair / "verifier.pt", pair / "other.pt", number_format)
    plain, rounds = drafted(*given, drafter_dtype=packed_in)
    assert plain == decoded(pair / "verifier.pt", number_format)
    assert rounds < sum(len(text.split()) + 1 for text, _ in plain)
    packs_nothing()
    given = (pair / f"{number_format}.pt", small[packed_in], number_format)
    assert drafted(*given, drafter_dtype=asked) == (plain, rounds)


def matrix(change):
    return lambda packed: change(packed["matrices"][0])


def words(change):
    """Of the first matrix, its packed numbers."""
    return matrix(lambda each: each["parts"].update(words=change(each["parts"]["words"])))


def modules(name):
    """The first matrix is that of another module."""
    return matrix(lambda each: each.update(modules=[[name]] * len(each["rows"])))


CHANGES = {
    "another version": (lambda packed: packed.update(version=2), "another version of fairseq_spec"),
    "another variant": (lambda packed: packed.update(variant="avx9"), "packed for avx9, and this"),
    "no matrix": (lambda packed: packed.update(matrices=[]), "not as they were written"),
    "a matrix less": (lambda packed: packed["matrices"].pop(), "hold|fit|Missing|weights"),
    "a matrix twice": (lambda packed: packed["matrices"].append(packed["matrices"][0]), "twice"),
    "a twin twice": (lambda packed: packed["matrices"].append(packed["matrices"][1]), "twice"),
    "a twin's short part": (
        lambda packed: packed["matrices"][1]["parts"].update(words=torch.zeros(3).int()),
        "do not fit its model",
    ),
    "a short part": (words(lambda each: each[:-1].clone()), "do not fit its model"),
    "a part in float": (words(lambda each: each.float()), "not as they were written"),
    "another width": (matrix(lambda each: each.update(columns=each["columns"] + 1)), "fit|weights"),
    "a norm": (modules("decoder.layer_norm"), "weights|fit"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_does_not_fit_is_refused(pair, name):
    change, message = CHANGES[name]
    state = load_checkpoint(str(pair / ("fp32-twin.pt" if "twin" in name else "fp32.pt")))
    change(state[packed_file.KEY])
    torch.save(state, str(pair / "changed.pt"))
    with pytest.raises(ValueError, match=message) as raised:
        translator(pair / "changed.pt").translate(TEXTS[0])
    assert "changed.pt" in str(raised.value) and "\n" not in str(raised.value)


DRAFTED = {"strategy": "sps", "drafter": "small-int8.pt"}


@pytest.mark.parametrize(
    "name, flags, message",
    [
        ("fp32", {"number_format": "int8"}, "packed in fp32"),
        ("fp32", {"backend": "torch"}, "packed for the native backend, and"),
        ("fp32", {"keep_weights": True}, "packed for decoding alone"),
        ("int8", {"number_format": "int8", "dtype": "bf16"}, "exists in int8 alone .*load the che"),
        ("verifier", {**DRAFTED, "drafter_dtype": "bf16"}, "-dtype bf16: .* packed in int8; leave"),
        ("verifier", {**DRAFTED, "backend": "torch"}, "-path: .*packed for the native backend"),
    ],
)
def test_other_ways_to_decode_are_refused(pair, small, name, flags, message):
    if "drafter" in flags:
        flags = {**flags, "drafter": pair / flags["drafter"]}
    with pytest.raises(ValueError, match=message):
        translator(pair / f"{name}.pt", **flags).translate(TEXTS[0])


def test_what_is_not_packed(pair, tmp_path, monkeypatch):
    verifier, out, in_bytes = pair / "verifier.pt", tmp_path / "out.pt", "8 bits already; leave it"
    for source, target, words, message in (
        (verifier, pair / "int8.pt", ["fp32"], r"int8.pt: exists; --force replaces it"),
        (verifier, verifier, ["fp32", "--force"], "is the input"),
        (pair / "drafter.pt", out, ["fp32"], "drafter"),
        (verifier, out, ["int8", "--twin", "int8"], in_bytes),
        (verifier, out, ["int7", "--twin", "int8"], in_bytes),
    ):
        with pytest.raises(ValueError, match=message):
            run(source, target, *words)
    monkeypatch.setenv("FAIRSEQ_SPECDEC_NATIVE", "off")
    with pytest.raises(ValueError, match="needs the native engine: FAIRSEQ_SPECDEC_NATIVE"):
        run(verifier, out)
    assert not out.exists()
