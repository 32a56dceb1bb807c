"""What decodes, but not as the model learned, or slowly, is warned of once, with the remedy."""

import pytest
from in_process import run_here

REMEDIES = ("; leave it out", "; pass ", ": add --bpe")
BPE = "--bpe subword_nmt --bpe-codes FILE"
PIECES = "--bpe sentencepiece --sentencepiece-model FILE"


def warned(command, *arguments, **flags):
    """The lines of the log that name a remedy."""
    _, log = run_here(command, *arguments, beam=1, **flags)
    return [line for line in log.splitlines() if any(each in line for each in REMEDIES)]


@pytest.mark.parametrize(
    "entry, text, remedy",
    [
        ("{}@@", "w4 w5\nw6\n", BPE),
        ("\u2581{}", "\nw4 w5\nw6\n", PIECES),
        ("{}@@", "w4@@ w5@@\nnever\n", None),
        ("\u2581{}", "\u2581w4\nnever\n", None),
        ("{}", "never\n", None),
    ],
)
def test_input_that_is_not_split(toy, tmp_path, entry, text, remedy):
    for language in ("src", "tgt"):
        lines = (toy.data / f"dict.{language}.txt").read_text(encoding="utf-8").splitlines()
        lines = [entry.format(line.split()[0]) + " 1\n" for line in lines]
        (tmp_path / f"dict.{language}.txt").write_text("".join(lines), encoding="utf-8")
    (tmp_path / "text").write_text(text, encoding="utf-8")
    lines = warned(
        "interactive", tmp_path, input=tmp_path / "text", task="translation_specdec", path=toy.v,
        source_lang="src", target_lang="tgt",
    )  # fmt: skip
    assert len(lines) == (remedy is not None)
    if remedy is not None:
        assert remedy in lines[0] and lines[0].startswith(f"--bpe: missing; {tmp_path}/dict.src")


@pytest.mark.parametrize("backend", ["auto", "torch"])
def test_fp16_on_a_cpu(toy, backend):
    flags = {"task": "translation_specdec", "path": toy.v, "batch_size": 16, "backend": backend}
    (line,) = warned("generate", toy.data, fp16=True, **flags)
    assert line.startswith("--fp16: a CPU")


@pytest.mark.parametrize(
    "name, changes, messages",
    [
        ("m2m", {}, []),
        ("m2m", {"langs": None, "lang_pairs": "en-de,en-ro"}, ["--langs en,de,ro"]),
        ("m2m", {"langs": "ro,de,en"}, ["--langs en,de,ro"]),
        (
            "m2m",
            {"encoder_langtok": None, "decoder_langtok": None},
            ["--encoder-langtok: training had --encoder-langtok tgt; pass it",
             "--decoder-langtok: training had --decoder-langtok; pass it"],
        ),
        ("m2m", {"encoder_langtok": "src"}, ["training had --encoder-langtok tgt; pass it"]),
        ("mbart25", {"prepend_bos": True}, ["--prepend-bos: training was without it; leave"]),
        ("mbart25", {"langs": "en,ro,de"}, ["--langs en,de,ro"]),
    ],
)  # fmt: skip
def test_tokens_of_languages_as_in_training(languages, family, name, changes, messages):
    model = family(name, max_update=1) if name == "mbart25" else family(name)
    flags = {**model.languages, "source_lang": "en", "target_lang": "de", **changes}
    task, place = model.task + "_specdec", {"path": model.path, "batch_size": 16}
    lines = warned("generate", languages, task=task, **place, **flags)
    assert len(lines) == len(messages)
    for line, message in zip(lines, messages):
        assert message in line and line.startswith(f"{model.path}: --")
