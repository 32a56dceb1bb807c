"""A DATA folder without binarised text or dictionaries is named, by every task and command."""

import pytest
from fairseq import options, tasks

from fairseq_specdec.bench import session
from fairseq_specdec.data import distill
from fairseq_specdec.data.folder import data_named

NO_TEXT = "{}: holds no binarised text .* give the folder that fairseq-preprocess wrote"
NO_WORDS = "{}/dict.src.txt: no such file; give the folder that fairseq-preprocess wrote$"
PAIR = ("-s", "src", "-t", "tgt")


def of_task(name, *words):
    """Set up a task of fairseq-generate; ``words`` follow DATA."""

    def run(folder):
        parser = options.get_generation_parser(default_task=name)
        line = [str(folder), "--path", "none.pt", "--task", name, *words]
        tasks.setup_task(options.parse_args_and_arch(parser, line))

    return run


def bench(folder, *words):
    (folder / "v.pt").touch()
    line = [str(folder), "--path", str(folder / "v.pt"), "--cpu", "--system", "g: --strategy iad"]
    session.read([*line, *words]).workload()


def distilled(folder, *words):
    (folder / "v.pt").touch()
    line = [str(folder), "--path", str(folder / "v.pt"), "--dest", str(folder / "out"), *words]
    distill.prepare(options.parse_args_and_arch(distill.get_parser(), line))


@pytest.mark.parametrize(
    "run, message",
    [
        (of_task("translation_specdec"), NO_TEXT),
        (of_task("translation_specdec", *PAIR), NO_WORDS),
        (of_task("translation_from_pretrained_bart_specdec", "--langs", "src,tgt"), NO_TEXT),
        (
            of_task("translation_multi_simple_epoch_specdec", *PAIR, "--lang-pairs", "src-tgt"),
            NO_WORDS,
        ),
        (bench, NO_TEXT),
        (lambda folder: bench(folder, *PAIR), NO_WORDS),
        (distilled, NO_TEXT),
        (lambda folder: distilled(folder, *PAIR, "--task", "translation"), NO_WORDS),
    ],
)
def test_an_empty_folder(tmp_path, run, message):
    with pytest.raises((ValueError, FileNotFoundError), match="^" + message.format(tmp_path)):
        run(tmp_path)


def test_other_errors_stay_what_they_are(tmp_path):
    """A file elsewhere, and errors with a class; others of fairseq get the folder."""
    for error in (FileNotFoundError(2, "none", "/elsewhere/dict"), ValueError("a flag")):
        with pytest.raises(type(error)) as raised, data_named(str(tmp_path)):
            raise error
        assert raised.value is error
    with pytest.raises(ValueError, match="^a: Incorrect encoding; give"), data_named("a:b"):
        raise Exception("Incorrect encoding")
