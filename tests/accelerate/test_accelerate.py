"""``specdec-accelerate`` makes a drafter and a report, goes on where it was, and refuses early."""

import json
import os
import re
import shutil
import sys

import pytest
import torch
from printed_commands import printed, run_printed

from fairseq_specdec.accelerate import cli, commands, inputs, measuring, report, steps
from fairseq_specdec.drafting import vocabulary

SMALL = (
    "--updates", 6, "--limit", 200, "--eval-sentences", 8, "--measure-sentences", 4,
    "--decode-beam", 2, "--batch-sizes", "1,3",
)  # fmt: skip


def state_of(out):
    return json.loads((out / "state.json").read_text(encoding="utf-8"))["steps"]


def test_from_a_verifier_to_a_report(
    accelerate, stopped_in_training, monkeypatch, capsys, caplog, job_of
):
    """Ctrl-C after the first slice of training; the same command goes on and ends. The model is
    taken for one that corrects text (it copies its source too), with a large vocabulary."""
    monkeypatch.setattr(measuring, "CORRECTS", 0.0)
    monkeypatch.setattr(vocabulary, "LARGE", 0)
    with stopped_in_training():
        accelerate(*SMALL)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "Ctrl-C" in line]
    assert "go on with: specdec-accelerate " in line and "--updates 6" in line

    out = accelerate(*SMALL)
    logged, state = caplog.text, state_of(out)
    assert state["distil"]["counts"]["chosen"] == 200 and all(x["done"] for x in state.values())
    assert state["train"]["updates"] == 6 and len(state["train"]["history"]) == 2
    drafter = torch.load(str(out / "drafter.pt"), weights_only=False)
    assert "last_optimizer_state" not in drafter and "decoder.mask_embedding" in drafter["model"]
    page = (out / "report.html").read_text(encoding="utf-8")
    for size in (1, 3):
        rows = state["measure"]["rows"][f"src-tgt, batches of {size}"]
        for way in commands.WAYS:
            assert rows[way]["identical_percent"] == 100
            assert rows[f"{way}, beam 2"]["identical_percent"] == 100
            assert way in page
    commands_shown = re.findall(r"--beam (\d) --batch-size (\d)", page)
    assert {("1", "1"), ("2", "1"), ("1", "3"), ("2", "3")} == set(commands_shown)
    assert "6 updates" in page and "One sentence at a time, beam 2, src-tgt: " in page
    assert "<h1>Decoding accelerate0/verifier.pt faster: src-tgt</h1>" in page
    assert "--gen-subset valid" in page
    listed = commands.here(out / "distilled" / "vocabulary.src-tgt.txt")
    measured = (out / "measured.json").read_text(encoding="utf-8")
    found = set(re.findall(r"(\S+) --vocabulary-list (\S+) --beam (\d)", measured))
    assert found == {("greedy", listed, "1")}
    programs = run_printed(out / "report.html")
    assert programs == [*["fairseq-generate"] * 4, "specdec-translate", "specdec-serve"]
    assert "this engine alone: " in logged and " of 200 pairs, " in logged
    command = commands.decode(job_of(out), "s-t", 1, 1, "iad")
    assert "--strategy iad" in command and "--drafter" not in command

    monkeypatch.setattr(steps, "run", None)  # no step that is done runs again
    (out / "report.html").unlink()
    accelerate(*SMALL)
    assert (out / "report.html").read_text(encoding="utf-8") == page


def test_a_long_step_reports_how_far_it_is(job_of, tmp_path, monkeypatch, caplog):
    """While it runs; not what an earlier run of the step has logged. A failure is named."""
    job = job_of(tmp_path)
    monkeypatch.setattr(steps, "TELL_EVERY", 0.2)
    caplog.set_level("INFO")
    steps.run(job, [sys.executable, "-c", "print('2026 | of an earlier run')"], "distil.log")
    code = "import sys, time; {}; time.sleep(1); sys.exit('f: error: no room')"
    for said in ("0", "print('2026 | INFO | 512 of 3000 sentences\\n | done', flush=True)"):
        with pytest.raises(ValueError, match=r"^distil: no room \(all of it: .*distil.log\)"):
            steps.run(job, [sys.executable, "-c", code.format(said)], "distil.log")
    assert set(caplog.messages) == {"distil: 512 of 3000 sentences"}


@pytest.mark.parametrize(
    "words, data",
    [
        (("{toy}/bin", "--path", "{toy}/verifier.pt"), "{toy}/bin"),
        (("--data", "{toy}/bin", "--path", "{toy}/verifier.pt"), "{toy}/bin"),
        (("{toy}", "--data", "{toy}/bin"), "{toy}/bin"),
        (("{toy}/verifier.pt", "--data", "{toy}/bin"), "{toy}/bin"),
        (("{toy}", "--trainpref", "{toy}/train", "--validpref", "{toy}/valid"), "binarised"),
        (("{trained}",), "{toy}/bin"),
    ],
)
def test_a_model_is_named_as_everywhere(accelerate, toy, tmp_path, stopping, words, data):
    """Up to the first step, which is not run; raw text is binarised before it."""
    trained = tmp_path / "trained.pt"
    state = torch.load(toy / "verifier.pt", weights_only=False)
    state["args"].data = str(toy / "bin")
    torch.save(state, trained)
    words = [word.format(toy=toy, trained=trained) for word in words]
    with stopping.here():
        accelerate(*words, "-s", "src", "-t", "tgt", named=False)
    (job,) = stopping.jobs
    assert os.path.basename(job.path) in ("verifier.pt", "trained.pt")
    assert os.path.abspath(job.data).endswith(data.format(toy=toy))


def test_sources_alone_are_enough(accelerate, toy, tmp_path, stopping):
    """The verifier translates those of valid at once."""
    for split in ("train", "valid"):
        shutil.copy(toy / f"{split}.src", tmp_path)
    prefixes = ("--trainpref", tmp_path / "train", "--validpref", tmp_path / "valid")
    with stopping.here():
        accelerate(*prefixes, "-s", "src", "-t", "tgt", data=toy)
    made = tmp_path / "out" / "binarised"
    assert (made / "valid.src-tgt.tgt.idx").is_file() and not list(made.glob("train.*.tgt.*"))


def test_text_that_is_not_split_is_refused(accelerate, toy, tmp_path):
    """Its words are unknown to the model, and a drafter of them was trained without a word."""
    prefix = tmp_path / "train"
    for side in ("src", "tgt"):
        (tmp_path / f"train.{side}").write_text("w1 whole\n" * 9, encoding="utf-8")
    words = ("--trainpref", prefix, "--validpref", prefix, "-s", "src", "-t", "tgt")
    with pytest.raises(SystemExit, match="33% of a text .* dictionary lacks; split it with"):
        accelerate(*words, data=toy)


def test_a_refusal_has_a_report(accelerate, monkeypatch, tmp_path):
    """Of a verifier that is as cheap as a drafter, then of one that loops."""
    read = steps.read_json
    counts = {"chosen": 100, "kept": 4, "dropped": 96, "reasons": {"length_limit": 96}}

    def endless(path):
        return {"counts": counts} if path.endswith("distill.json") else read(path)

    for layers, said in ((3, "2 decoder layers; drafting with 2 layers would cost"),
                         (2, "the model loops or is undertrained")):  # fmt: skip
        monkeypatch.setattr(cli, "LEAST_LAYERS", layers)
        monkeypatch.setattr(steps, "read_json", endless)
        with pytest.raises(SystemExit, match=f"{said}.*report.html has figures and commands"):
            accelerate("--decode-beam", 1, "--hours", 1)
        (command,) = printed(tmp_path / "out" / "report.html")
        assert command.startswith("fairseq-generate") and "--strategy greedy" in command
        assert said in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "words, message",
    [
        (("--hours", 0), "--hours 0.0: must be above 0"),
        (("--hours", 1, "--updates", 5), "--hours and --updates: choose one"),
        (("--batch-sizes", "1,x"), "--batch-sizes 1,x: expected different whole numbers"),
        (("--trainpref", "x"), "--trainpref and --validpref: give both"),
        (("--path", "none.pt"), "--path: no such file"),
        (("--path", "{toy}/language.pt"), "holds no encoder of text; .* for a language model"),
        (("--data", "b"), "--data b: .*/bin is the data already"),
        (("--out", "."), "exists and was not made by this command"),
    ],
)
def test_flags_that_make_no_sense(accelerate, toy, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.txt").touch()
    state = torch.load(toy / "verifier.pt", weights_only=False)
    state["model"] = {k: v for k, v in state["model"].items() if not k.startswith("encoder")}
    torch.save(state, toy / "language.pt")
    with pytest.raises(SystemExit, match=message):
        accelerate(*[str(word).format(toy=toy) for word in words])
    assert os.listdir(tmp_path) == ["mine.txt"]


def test_a_folder_is_one_runs(accelerate, toy, stopping, tmp_path):
    """One process at a time works in it, with the settings that the first step began with."""
    with pytest.raises(SystemExit, match="no such file"):  # a mistake begins nothing
        accelerate("--trainpref", "x", "--validpref", "x", "-s", "src", "-t", "tgt", data=toy)

    def second():
        with pytest.raises(SystemExit, match="--out: .*out is being written by another process"):
            accelerate("--hours", 1)

    stopping.then = second
    for hours in (1, 2):  # more time is no other setting
        with stopping.here():
            accelerate("--hours", hours)
    with pytest.raises(SystemExit, match="--beam 5: .* was begun with 1"):
        accelerate("--beam", 5)
    assert os.listdir(tmp_path / "out") == ["state.json"]


def test_training_ends_by_accepted_tokens():
    for history, accepted, ends in (
        ([], None, False), ([2.0, 2.2, 2.1], None, False), ([2.0, 2.2], 2.2, True),
        ([2.0, 2.2], 2.3, False), ([2.3, 2.0, 2.2, 2.1, 2.2], None, True),
        ([2.3, 2.0, 2.2, 2.1, 2.4], None, False),
    ):  # fmt: skip
        assert bool(steps.enough(history, accepted)) is ends


@pytest.mark.parametrize(
    "trained, hours, given, limit",
    [
        (300.0, 1.0, 500, 500),
        (300.0, 1.0, 10**6, 36000),
        (300.0, 0, None, 1000),
        (5.0, 1.0, None, 14400),  # as many as training goes over once
    ],
)
def test_hours_decide_how_many_sentences_are_distilled(
    job_of, tmp_path, monkeypatch, trained, hours, given, limit
):
    """And --limit where it is less. What was decided stays, whatever the next run is given."""
    job = job_of(tmp_path, limit=given)
    job.hours = hours
    counts = {"chosen": 1, "kept": 1, "dropped": 0, "reasons": {}}

    def ended(job, words, log):
        assert int(words[words.index("--limit") + 1]) == pytest.approx(limit, abs=9)  # a clock's
        return 1.0

    monkeypatch.setattr(steps, "read_json", lambda path: {"counts": counts})
    monkeypatch.setattr(steps, "run", ended)
    monkeypatch.setattr(steps, "rates", lambda *args: (20.0, trained, 1))
    steps.distil(job)
    job.state.note("distil", done=False)
    job.hours = 99.0
    steps.distil(job)


def test_rates_are_measured_on_a_few_sentences(accelerate, monkeypatch, tmp_path, caplog):
    """By real commands, up to the training itself. What was made for it is not kept."""

    def reached(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(steps, "train", reached)
    with pytest.raises(SystemExit):
        accelerate("--hours", 1, "--decode-beam", 1, "--batch-sizes", 1)
    (line,) = [line for line in caplog.messages if "second, in training" in line]
    distilled, trained = map(int, re.findall(r"\d+", line)[:2])
    state = state_of(tmp_path / "out")["distil"]
    assert distilled > 0 and trained > 0 and state["pilot"] > 0
    assert state["counts"]["chosen"] == 300 < state["limit"]
    assert not (tmp_path / "out" / "pilot").exists()
    assert not list((tmp_path / "out").glob("training/*"))


def figures(**times):
    """Rows as ``specdec-bench`` gives them, of these milliseconds a sentence."""
    return {
        name.replace("_", " "): {"ms_mean": ms, "tok": 1.0 if "greedy" in name else 1.5}
        for name, ms in times.items()
    }


STOCK = {"fairseq_beam_1": 40.0, "fairseq_beam_5": 90.0}


@pytest.fixture
def measured(tmp_path, job_of):
    """A job for beams 1 and 5 whose first comparison is done."""
    job = job_of(tmp_path)
    rows = figures(**STOCK, greedy=4.0)
    rows["greedy, beam 5"] = {"ms_mean": 6.0}
    job.state.note("compare", rows=rows, sentences=20, beams=job.beams)
    return job


@pytest.mark.parametrize("undrafted, last", [(1.5, "gad"), (1.01, "greedy")])
def test_what_pays_is_recommended_for_each_use(measured, undrafted, last):
    """Not what is faster by chance, without drafts or by less than the threshold."""
    job = measured
    parts = {}
    for size, times in ((1, (4.0, 3.0, 6.0, 5.95)), (8, (2.0, 2.5, 3.0, 2.0))):
        names = ("greedy", "gad", "greedy, beam 5", "gad, beam 5")
        rows = parts[f"s-t, batches of {size}"] = figures(**STOCK)
        rows.update(figures(**dict(zip(names, times))))
    rows["gad, beam 5"]["tok"] = undrafted
    job.state.note("measure", rows=parts)
    recommended = [(best.size, best.beam, best.way) for best in measuring.recommend(job)]
    assert recommended == [(1, 1, "gad"), (1, 5, "greedy"), (8, 1, "greedy"), (8, 5, last)]
    assert "6.0 ms per sentence, 15.0 times stock" in measuring.recommend(job)[1].figures


COPIES = ("greedy", "gad", "iad")


@pytest.mark.parametrize(
    "copied, converted, ways", [(None, None, 2), (3.9, None, 2), (3.0, None, 4), (3.0, "folder", 3)]
)
def test_copies_are_measured_where_they_pay(measured, copied, converted, ways):
    rows = measured.state.results("compare")["rows"]
    rows.update({} if copied is None else {"iad": {"ms_mean": copied}})
    measured.state.note("compare", rows=rows)
    measured.converted = converted
    assert measuring.worthwhile(measured) == list(commands.WAYS)[:ways]


@pytest.mark.parametrize(
    "ways, times, said",
    [
        (COPIES[:2], (4.0, 3.0), "10.0 times .* stock .* 1.33 times as fast as greedy; use gad.$"),
        (COPIES[:2], (4.0, 5.0), "0.80 times as fast as greedy; use greedy. .* yet .* --hours"),
        (COPIES, (4.0, 3.0, 2.0), "use iad. The drafter does not pay: the source is the better"),
        (COPIES, (4.0, 1.0, 2.0), "4.00 times as fast as greedy; use gad.$"),
    ],
)
def test_the_verdict_has_both_gains_and_what_to_use(measured, ways, times, said):
    measured.ways = ways
    vars(measured.args).update(decode_beam=1, batch_sizes=(1,))
    rows = {"s-t, batches of 1": figures(**STOCK, **dict(zip(ways, times)))}
    measured.state.note("measure", rows=rows)
    assert re.search(said, report.verdict(measured))


@pytest.mark.parametrize(
    "hours, asked, sentences", [(1.0, 97, 97), (1.0, 10**6, 1797), (0.0001, 50, 10), (None, 50, 50)]
)
def test_time_for_measuring_is_left_and_sentences_fit_into_it(measured, hours, asked, sentences):
    vars(measured.args).update(hours=hours, measure_sentences=asked)
    sentence = 2 * (40.0 + 90.0 + 2 * (4.0 + 6.0)) / 1000
    left = hours and max(0, hours - (sentences + 3) * sentence / 3600)
    assert measuring.plan(measured) == (pytest.approx(left), sentences)


@pytest.mark.parametrize(
    "form, flags",
    [("{}", ""), ("{}@@", "--remove-bpe "), ("\u2581{}", "--remove-bpe sentencepiece ")],
)
def test_commands_treat_subwords_as_the_data_do(toy, tmp_path, monkeypatch, form, flags):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(toy / "bin", "bin")
    words = [form.format(line.split()[0]) for line in open(toy / "dict.tgt.txt", encoding="utf-8")]
    for side in ("src", "tgt"):
        (tmp_path / f"bin/dict.{side}.txt").write_text(" 1\n".join([*words, ""]), encoding="utf-8")
    words = ["bin", "--path", str(toy / "verifier.pt"), "--out", "out"]
    job = inputs.prepare(cli.get_parser().parse_args(words))
    assert f"--gen-subset valid {flags}--beam 1" in commands.decode(job, "src-tgt", 1, 1, "greedy")
