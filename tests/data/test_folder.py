"""A DATA folder without binarised text or dictionaries is named, by every task and command."""

from types import SimpleNamespace

import pytest
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from fairseq_specdec.data.folder import data_named, split_named

NO_TEXT = "{}: holds no binarised text .* give the folder that fairseq-preprocess wrote"
NO_WORDS = "{}/dict.src.txt: no such file; give the folder that fairseq-preprocess wrote$"
NO_SPLIT = r"{}: has no split test for src-tgt \(it has train\); name one with --gen-subset, "
PAIR = ("-s", "src", "-t", "tgt")


def of_task(name, *words):
    """Set up a task of fairseq-generate, and ask for a split; ``words`` follow DATA."""

    def run(folder):
        parser = options.get_generation_parser(default_task=name)
        line = [str(folder), "--path", "none.pt", "--task", name, *words]
        args = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, line))
        tasks.setup_task(args.task).load_dataset("test")

    return run


def of_split(name, *words):
    """Where the folder has another split."""

    def run(folder):
        for side in ("src", "tgt"):
            (folder / f"dict.{side}.txt").write_text("a 1\n", encoding="utf-8")
        (folder / "train.src-tgt.src.idx").touch()
        of_task(name, *PAIR, *words)(folder)

    return run


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
        (of_split("translation_specdec"), NO_SPLIT),
        (of_split("translation_from_pretrained_bart_specdec", "--langs", "src,tgt"), NO_SPLIT),
        (of_split("translation_multi_simple_epoch_specdec", "--lang-pairs", "src-tgt"), NO_SPLIT),
        (of_split("multilingual_translation_specdec", "--lang-pairs", "src-tgt"), NO_SPLIT),
    ],
)
def test_what_a_folder_lacks(tmp_path, run, message):
    with pytest.raises((ValueError, FileNotFoundError), match="^" + message.format(tmp_path)):
        run(tmp_path)


def test_other_errors_stay_what_they_are(tmp_path):
    """A file elsewhere, and errors with a class; others of fairseq get the folder."""
    for error in (FileNotFoundError(2, "none", "/elsewhere/dict"), ValueError("a flag")):
        with pytest.raises(type(error)) as raised, data_named(str(tmp_path)):
            raise error
        assert raised.value is error
    files = SimpleNamespace(data=str(tmp_path))  # of speech: no languages
    with pytest.raises(KeyError, match="other"), split_named(files, "test"):
        raise KeyError("other")
    (tmp_path / "test.a-b.b.idx").touch()
    files = SimpleNamespace(data=str(tmp_path), source_lang="b", target_lang="a")
    with pytest.raises(KeyError, match="other"), split_named(files, "test"):
        raise KeyError("other")
    with pytest.raises(ValueError, match="^a: Incorrect encoding; give"), data_named("a:b"):
        raise Exception("Incorrect encoding")
