"""All pairs of a multilingual model, distilled into one corpus."""

import json

import pytest
from fairseq import options
from fairseq.data import Dictionary, indexed_dataset
from in_process import PLUGIN, command_line, one_thread, run_here

from fairseq_specdec.data import distill
from fairseq_specdec.data.work import Distillation

SPLIT = {"gen_subset": "test", "beam": 1, "batch_size": 16}


def distilled(languages, model, dest, **flags):
    """Run the command here; its report."""
    given = {
        "user_dir": PLUGIN, "task": model.task + "_specdec", "path": model.path, "dest": dest,
        "chunk_size": 16, "num_workers": 0, "on_length_limit": "keep", **SPLIT, **model.languages,
        **flags,
    }  # fmt: skip
    words = [str(languages), *command_line(**given)]
    with one_thread():
        args = options.parse_args_and_arch(distill.get_parser(), input_args=words)
        return distill.main(args, words)


def sentences(folder, pair, side):
    data = indexed_dataset.make_dataset(str(folder / f"test.{pair}.{side}"), "mmap")
    return [data[i].tolist() for i in range(len(data))]


@pytest.fixture(scope="module")
def corpus(languages, family, tmp_path_factory):
    """Both pairs, by a run that was killed in the second and one that went on."""
    dest, model = tmp_path_factory.mktemp("distilled") / "out", family("m2m")
    write, left = Distillation.write, [6]

    def killed(*args):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        write(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Distillation, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            distilled(languages, model, dest)
    assert not dest.exists()
    with pytest.MonkeyPatch.context() as patch:
        left[0] = 2  # four chunks a pair
        patch.setattr(Distillation, "write", killed)
        report = distilled(languages, model, dest)
    assert {pair: about["counts"]["kept"] for pair, about in report["pairs"].items()} == {
        "en-de": 60, "en-ro": 60,
    }  # fmt: skip
    return dest


@pytest.mark.parametrize("target", ["de", "ro"])
def test_targets_are_what_fairseq_generate_prints(languages, family, corpus, target):
    """Without the language tokens, which training adds again."""
    model, pair = family("m2m"), f"en-{target}"
    out, _ = run_here(
        "generate", languages, task=model.task, path=model.path, source_lang="en",
        target_lang=target, **SPLIT, **model.languages,
    )  # fmt: skip
    words, rows = Dictionary.load(str(corpus / "dict.en.txt")), {}
    for line in out.splitlines():
        if line.startswith("H-"):
            number, _, text = line.split("\t")
            rows[int(number[2:])] = words.encode_line(text, add_if_not_exist=False).tolist()
    assert sentences(corpus, pair, target) == [rows[number] for number in range(60)]
    assert sentences(corpus, pair, "en") == sentences(languages, pair, "en")


def test_all_that_training_needs_is_there(languages, family, corpus):
    names = {path.name for path in languages.iterdir()} - {"preprocess.log"}
    more = {"distill.json", "dropped.en-de.tsv", "dropped.en-ro.tsv"}
    more |= {"vocabulary.en-de.txt", "vocabulary.en-ro.txt"}
    assert {path.name for path in corpus.iterdir()} == names | more
    assert not (corpus.parent / "out.parts").exists()
    report = json.loads((corpus / "distill.json").read_text("utf-8"))
    assert report["settings"]["pairs"] == "en-de,en-ro"
    assert "--dest" not in report["settings"]
    assert distilled(languages, family("m2m"), corpus) == report  # complete already


def test_one_language_is_no_pair(languages, family, tmp_path):
    with pytest.raises(ValueError, match="--source-lang and --target-lang"):
        distilled(languages, family("m2m"), tmp_path / "out", source_lang="en")
