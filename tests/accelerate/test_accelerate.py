"""``specdec-accelerate`` makes a drafter and a report, goes on where it was, and refuses early."""

import json
import os
import re
import shutil
import sys

import pytest
import torch
from printed_commands import printed, run_printed

from fairseq_specdec.accelerate import cli, commands, measuring, report, steps, verifier
from fairseq_specdec.accelerate.commands import Job
from fairseq_specdec.accelerate.state import State
from fairseq_specdec.accelerate.steps import Limits

SMALL = (
    "--updates", 6, "--limit", 40, "--eval-sentences", 8, "--measure-sentences", 8,
    "--decode-beam", 2, "--batch-sizes", "1,3",
)  # fmt: skip


def state_of(out):
    return json.loads((out / "state.json").read_text(encoding="utf-8"))["steps"]


def test_from_a_verifier_to_a_report(
    accelerate, stopped_in_training, monkeypatch, capsys, caplog, loaded_python
):
    """Ctrl-C after the first slice of training; the same command goes on and ends."""
    with stopped_in_training():
        accelerate(*SMALL)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "Ctrl-C" in line]
    assert "go on with: specdec-accelerate " in line and "--updates 6" in line

    out = accelerate(*SMALL)
    logged = caplog.text
    state = state_of(out)
    assert state["distil"]["counts"]["chosen"] == 40
    assert state["train"]["updates"] == 6 and len(state["train"]["history"]) == 2
    assert all(each["done"] for each in state.values())
    drafter = torch.load(str(out / "drafter.pt"), weights_only=False)
    assert "last_optimizer_state" not in drafter and "decoder.mask_embedding" in drafter["model"]
    page = (out / "report.html").read_text(encoding="utf-8")
    ours = ("greedy", "gad", "greedy, beam 2", "gad, beam 2")
    for size in ("1", "3"):
        rows = state["measure"]["rows"][size]
        assert all(rows[name]["identical_percent"] == 100.0 for name in ours)
        for beam, end in ((1, ""), (2, ", beam 2")):
            greedy, gad = (rows[way + end] for way in ("greedy", "gad"))
            pays = min(greedy["ms_mean"] / gad["ms_mean"], gad["tok"]) >= measuring.LEAST_GAIN
            command = f"--beam {beam} --batch-size {size} --strategy {'gad' if pays else 'greedy'}"
            assert command in page and command in logged
    assert "6 updates" in page and page.count("<svg") == 3
    assert "<h1>Decoding accelerate0/verifier.pt faster: src-tgt</h1>" in page
    assert "--gen-subset valid" in page
    programs = run_printed(out / "report.html", loaded_python)
    assert programs == [*["fairseq-generate"] * 4, "from", "specdec-serve"]
    assert "this engine alone: " in logged and "none dropped" in logged

    def unwanted(*args):
        raise AssertionError("a step that is done was run again")

    monkeypatch.setattr(steps, "run", unwanted)
    (out / "report.html").unlink()
    accelerate(*SMALL)
    assert (out / "report.html").read_text(encoding="utf-8") == page


def test_a_model_that_corrects_text_copies_its_source(
    accelerate, monkeypatch, toy, tmp_path, loaded_python
):
    """With the edits that it nearly always makes, and without. DATA have a test split here."""
    shutil.copytree(toy / "bin", tmp_path / "bin")
    for path in tmp_path.glob("bin/valid.*"):
        shutil.copy(path, tmp_path / "bin" / path.name.replace("valid", "test"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(measuring, "CORRECTS", 0.0)
    words = ("--updates", 3, "--limit", 200, "--eval-sentences", 8, "--measure-sentences", 8)
    out = accelerate(*words, "--decode-beam", 2, "--batch-sizes", 1, data="bin")
    run_printed(out / "report.html", loaded_python)
    assert re.match("fairseq-generate bin .*--gen-subset test", printed(out / "report.html")[0])
    rows = state_of(out)["measure"]["rows"]["1"]
    for way in commands.WAYS:
        assert rows[way]["identical_percent"] == rows[f"{way}, beam 2"]["identical_percent"] == 100
    assert "iad with edits" in (out / "report.html").read_text(encoding="utf-8")
    assert len((out / "edits.tsv").read_text(encoding="utf-8").splitlines()) > 1
    job = Job("d", "v.pt", str(out), "s", "t", 1, True, False, 1000, 1, 8)
    command = commands.decode(job, "s-t", "iad with edits", 1, 1)
    assert f"--strategy iad --edits {out / 'edits.tsv'}" in command and "--drafter" not in command


COUNTED = "2026 | INFO | data.teacher | 512 of 3000 sentences, 97.1 per second, about 1 min left"
TRAINED = '2026 | INFO | train_inner | {"epoch": 7, "num_updates": "140", "lr": "0.002"}'


@pytest.mark.parametrize(
    "lines, said",
    [
        ((), None),
        (("loading",), None),
        ((COUNTED, "saved a chunk"), "512 of 3000 sentences, 97.1 per second, about 1 min left"),
        ((COUNTED, TRAINED, "saving"), "update 140"),
    ],
)
def test_a_long_step_reports_how_far_it_is(measured, monkeypatch, caplog, lines, said):
    """While it runs; not what an earlier run of the step has logged. A failure is named."""
    job = measured[0]
    monkeypatch.setattr(steps, "TELL_EVERY", 0.2)
    caplog.set_level("INFO")
    steps.run(job, [sys.executable, "-c", f"print({COUNTED.replace('512', '1')!r})"], "distil.log")
    code = f"import sys, time; print({chr(10).join(lines)!r}, flush=True); time.sleep(1); "
    with pytest.raises(ValueError, match=r"^distil: no room \(all of it: .*distil.log\)"):
        steps.run(job, [sys.executable, "-c", code + "sys.exit('f: error: no room')"], "distil.log")
    told = {line for line in caplog.messages if line.startswith("distil: ")}
    assert told == ({f"distil: {said}"} if said else set())


@pytest.mark.parametrize("workers, given", [(None, []), (4, ["--ray-workers", "4"])])
def test_a_cluster_distils_all_but_what_is_timed(measured, workers, given):
    job = measured[0]._replace(cluster="head:6379", workers=workers)
    words = commands.distill(job, "d", None)
    place = words.index("--ray")
    assert words[place : place + 2 + len(given)] == ["--ray", "head:6379", *given]
    assert ("--ray-workers" in words) is bool(given)
    assert "--ray" not in commands.distill(job, "d", 256, shared=False)


def test_raw_text_is_binarised(accelerate, toy, stopping):
    """Up to the first step, which is not run."""
    words = ("--trainpref", toy / "train", "--validpref", toy / "valid", "-s", "src", "-t", "tgt")
    with stopping.here():
        accelerate(*words, data=toy)
    assert stopping.jobs[0].data.endswith("binarised")


def test_sources_alone_are_enough(accelerate, toy, tmp_path, loaded_python):
    """The verifier translates them: those of valid first, those of train as ever."""
    for split in ("train", "valid"):
        text = (toy / f"{split}.src").read_text(encoding="utf-8")
        (tmp_path / f"{split}.src").write_text(text, encoding="utf-8")
    out = accelerate(
        "--trainpref", tmp_path / "train", "--validpref", tmp_path / "valid", "-s", "src",
        "-t", "tgt", "--updates", 3, "--limit", 40, "--eval-sentences", 8,
        "--measure-sentences", 8, "--decode-beam", 1, "--batch-sizes", 1, data=toy,
    )  # fmt: skip
    state = state_of(out)
    assert state["distil"]["counts"]["chosen"] == 40
    row = state["measure"]["rows"]["1"]["fairseq beam 1"]
    assert row["bleu"] == pytest.approx(100), "valid holds the verifier's own output"
    assert (out / "drafter.pt").is_file() and not list(out.glob("sources/train.*.tgt.*"))
    assert run_printed(out / "report.html", loaded_python)[0] == "fairseq-generate"


@pytest.mark.parametrize("mark", ["{}@@", "\u2581{}"])
def test_text_that_is_not_split_is_refused(accelerate, tmp_path, mark):
    """Its words are unknown to the model, and a drafter of them was trained without a word."""
    marked, prefix = mark.format("a"), tmp_path / "train"
    for side in ("src", "tgt"):
        (tmp_path / f"dict.{side}.txt").write_text(f"{marked} 1\nword 1\n", encoding="utf-8")
        (tmp_path / f"train.{side}").write_text("a word\n" * 200, encoding="utf-8")
    words = ("--trainpref", prefix, "--validpref", prefix, "-s", "src", "-t", "tgt")
    message = (
        rf"--trainpref: .*train\.src is not split into subwords, .*'{marked}'.*; split it with "
    )
    with pytest.raises(SystemExit, match=message + "the verifier's subword model first"):
        accelerate(*words, data=tmp_path)
    (tmp_path / ("codes" if "@" in mark else "spm.model")).write_text("#version: 0.2\na b\n")
    with pytest.raises(SystemExit, match=message + r".*/(codes|spm\.model) first"):
        accelerate(*words, data=tmp_path)


@pytest.mark.parametrize(
    "gone, message",
    [
        ("encoder", "a decoder without an encoder"),
        ("encoder.embed_tokens", "no Transformer for text"),
    ],
)
def test_what_will_not_pay_is_refused(accelerate, toy, tmp_path, gone, message):
    state = torch.load(str(toy / "verifier.pt"), weights_only=False)
    state["model"] = {k: v for k, v in state["model"].items() if not k.startswith(gone)}
    torch.save(state, str(tmp_path / "other.pt"))
    with pytest.raises(SystemExit, match=message):
        accelerate(path=tmp_path / "other.pt")


@pytest.fixture
def endless(monkeypatch):
    """Distillations report a verifier whose outputs never end."""
    read = steps.read_json
    counts = {"chosen": 100, "dropped": 96, "reasons": {"length_limit": 90, "empty_source": 6}}

    def reported(path):
        return {"counts": counts} if path.endswith("distill.json") else read(path)

    monkeypatch.setattr(steps, "read_json", reported)


def test_a_refusal_has_a_report(accelerate, monkeypatch, tmp_path, request):
    """Of a verifier that is as cheap as a drafter, then of one that loops."""
    for layers, said in ((3, "2 decoder layers; drafting with 2 layers would cost"),
                         (2, "the model loops or is undertrained")):  # fmt: skip
        monkeypatch.setattr(verifier, "LEAST_LAYERS", layers)
        if layers == 2:
            request.getfixturevalue("endless")
        with pytest.raises(SystemExit, match=f"{said}.*report.html has figures and commands"):
            accelerate("--decode-beam", 1, "--hours", 1)
        (command,) = printed(tmp_path / "out" / "report.html")
        assert command.startswith("fairseq-generate") and "--strategy greedy" in command
        assert said in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_data_that_are_not_the_verifiers_end_it(measured, monkeypatch, endless):
    monkeypatch.setattr(steps, "run", lambda *args: 1.0)
    with pytest.raises(
        ValueError, match=r"distil: 96 dropped \(96.0%\): 90 outputs cut .*subwords"
    ):
        steps.distil(*measured, Limits(None, 6, None, 100), None)


@pytest.mark.parametrize(
    "words, message",
    [
        (("--hours", 0), "--hours 0.0: must be above 0"),
        (("--hours", 1, "--updates", 5), "--hours and --updates: choose one"),
        (("--batch-sizes", "1,x"), "--batch-sizes 1,x: expected different whole numbers"),
        (("--trainpref", "x"), "--trainpref and --validpref: give both"),
        (("--path", "none.pt"), "--path: no such file"),
        (("--out", "."), "exists and was not made by this command"),
    ],
)
def test_flags_that_make_no_sense(accelerate, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.txt").touch()
    with pytest.raises(SystemExit, match=message):
        accelerate(*words)
    assert os.listdir(tmp_path) == ["mine.txt"]


def test_one_process_at_a_time_works_in_a_folder(accelerate, tmp_path, stopping):
    def second():
        with pytest.raises(SystemExit, match="--out: .*out is being written by process .*wait"):
            accelerate()

    stopping.then = second
    for _ in range(2):
        with stopping.here():
            accelerate()
    assert os.listdir(tmp_path / "out") == ["state.json"]


def test_other_settings_are_refused_by_name(accelerate, toy, stopping):
    """Once a step has begun, and not after a mistake."""
    with pytest.raises(SystemExit, match="no such file"):
        accelerate("--trainpref", "x", "--validpref", "x", "-s", "src", "-t", "tgt", data=toy)
    with stopping.here():
        accelerate("--hours", 1)
    with pytest.raises(SystemExit, match="--beam 5: .* was begun with 1"):
        accelerate("--hours", 1, "--beam", 5)
    with stopping.here():
        accelerate("--hours", 2)  # more time is no other setting


@pytest.mark.parametrize(
    "history, accepted, ends",
    [
        ([], None, False),
        ([2.0, 2.2, 2.1], None, False),
        ([2.0, 2.2], 2.2, True),
        ([2.0, 2.2], 2.3, False),
        ([2.3, 2.0, 2.2, 2.1, 2.2], None, True),
        ([2.3, 2.0, 2.2, 2.1, 2.4], None, False),
    ],
)
def test_training_ends_by_accepted_tokens(history, accepted, ends):
    assert bool(steps.enough(history, Limits(None, 10, accepted, None))) is ends


@pytest.mark.parametrize(
    "distilled, trained, epochs, share",
    [(200.0, 35.0, 1.0, 35 / 235), (60.0, 60.0, 1.0, 0.5), (30.0, 300.0, 10.0, 0.5)],
)
def test_as_many_sentences_as_training_sees_once(distilled, trained, epochs, share):
    """More epochs where distilling is the slower of the two."""
    count = steps.one_epoch(7200, distilled, trained)
    assert count / distilled == pytest.approx(7200 * share, rel=1e-3)
    assert (7200 - count / distilled) * trained / count == pytest.approx(epochs, rel=1e-3)
    assert steps.one_epoch(-1.0, distilled, trained) == 0


@pytest.mark.parametrize(
    "hours, given, limit",
    [(1.0, None, 36000), (1.0, 500, 500), (1.0, 10**6, 36000), (0, None, 1000)],
)
def test_hours_decide_how_many_sentences_are_distilled(measured, monkeypatch, hours, given, limit):
    """And --limit where it is less. What was decided stays, whatever the next run is given."""
    job, state = measured

    def ended(job, words, log):
        assert int(words[words.index("--limit") + 1]) == pytest.approx(limit, abs=9)  # a clock's
        (folder,) = [word for word in words if word.endswith("distilled")]
        os.makedirs(folder, exist_ok=True)
        report = {"counts": {"chosen": 1, "dropped": 0}}
        with open(os.path.join(folder, "distill.json"), "w", encoding="utf-8") as stream:
            json.dump(report, stream)
        return 1.0

    monkeypatch.setattr(steps, "run", ended)
    monkeypatch.setattr(steps, "rates", lambda *args: (20.0, 300.0, 1))
    steps.distil(job, state, Limits(hours, None, None, given), None)
    steps.distil(job, state, Limits(99.0, None, None, given), None)


def test_rates_are_measured_on_a_few_sentences(accelerate, monkeypatch, tmp_path, caplog):
    """By real commands, up to the training itself. What was made for it is not kept."""

    def reached(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(steps, "train", reached)
    with pytest.raises(SystemExit):
        accelerate("--hours", 1, "--decode-beam", 1, "--batch-sizes", 1)
    (line,) = [line for line in caplog.messages if "in training" in line]
    distilled, trained = map(int, re.findall(r"\d+", line)[:2])
    state = state_of(tmp_path / "out")["distil"]
    assert distilled > 0 and trained > 0 and state["pilot"] > 0
    assert state["counts"]["chosen"] == 300 < state["limit"]
    assert not (tmp_path / "out" / "pilot").exists()
    assert not list((tmp_path / "out").glob("training/*"))


def test_the_pace_decides_how_many_updates_there_are():
    hours = Limits(1.0, None, None, None)
    assert steps.planned({"updates": 100, "seconds": 50.0}, hours, left=200.0) == 500
    assert steps.planned({"updates": 100, "seconds": 50.0}, hours, left=-5.0) == 100


def figures(**times):
    """Rows as ``specdec-bench`` gives them, of these milliseconds a sentence."""
    return {
        name.replace("_", " "): {"ms_mean": ms, "tok": 1.0 if "greedy" in name else 1.5}
        for name, ms in times.items()
    }


STOCK = {"fairseq_beam_1": 40.0, "fairseq_beam_5": 90.0}


@pytest.fixture
def measured(tmp_path):
    """A job for beams 1 and 5 whose first comparison is done."""
    job = Job("d", "v.pt", str(tmp_path), "s", "t", 1, True, False, 1000, 1, 8, 5, (1, 8))
    state = State(str(tmp_path), {})
    rows = figures(**STOCK, greedy=4.0)
    rows["greedy, beam 5"] = {"ms_mean": 6.0}
    state.note("compare", rows=rows, sentences=20, beams=job.beams)
    return job, state


@pytest.mark.parametrize("undrafted, last", [(1.5, "gad"), (1.01, "greedy")])
def test_what_pays_is_recommended_for_each_use(measured, undrafted, last):
    """Not what is faster by chance, without drafts or by less than the threshold."""
    job, state = measured
    parts = {}
    for size, times in (("1", (4.0, 3.0, 6.0, 5.95)), ("8", (2.0, 2.5, 3.0, 2.0))):
        names = ("greedy", "gad", "greedy, beam 5", "gad, beam 5")
        parts[size] = figures(**STOCK)
        parts[size].update(figures(**dict(zip(names, times))))
    parts["8"]["gad, beam 5"]["tok"] = undrafted
    state.note("measure", rows=parts)
    recommended = [(best.size, best.beam, best.way) for best in measuring.recommend(job, state)]
    assert recommended == [(1, 1, "gad"), (1, 5, "greedy"), (8, 1, "greedy"), (8, 5, last)]
    assert measuring.recommend(job, state)[1].speed == 90.0 / 6.0


COPIES = ("greedy", "gad", "iad")


@pytest.mark.parametrize(
    "copied, converted, ways",
    [
        (None, None, COPIES[:2]),
        (3.9, None, COPIES[:2]),
        (3.0, None, (*COPIES, "iad with edits")),
        (3.0, "folder", COPIES),
    ],
)
def test_copies_are_measured_where_they_pay(measured, copied, converted, ways):
    job, state = measured
    rows = dict(state.results("compare")["rows"])
    if copied is not None:
        rows["iad"] = {"ms_mean": copied}
    state.note("compare", rows=rows)
    assert measuring.worthwhile(job._replace(converted=converted), state) == ways


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
    job, state = measured
    job = job._replace(ways=ways, decode_beam=1, batch_sizes=(1,))
    rows = figures(**STOCK, **dict(zip(ways, times)))
    state.note("measure", rows={"1": rows})
    assert re.search(said, report.verdict(job, state))


def test_time_for_measuring_is_left_and_sentences_fit_into_it(measured, monkeypatch):
    job, state = measured
    sentence = 2 * (40.0 + 90.0 + 2 * (4.0 + 6.0)) / 1000
    whole = Limits(1.0, None, None, None)
    left = measuring.leave_time(job, state, whole, 97)
    assert left.hours == pytest.approx(1.0 - 100 * sentence / 3600)
    assert measuring.leave_time(job, state, whole, 10**6).hours == pytest.approx(0.85)
    assert measuring.leave_time(job, state, Limits(None, 5, None, None), 10**6).hours is None

    asked = []

    def noted(job, pair, ways, sizes, limit):
        asked.append(limit)
        return {str(size): {} for size in sizes}

    monkeypatch.setattr(measuring, "rows_of", noted)
    for hours, sentences in ((0.85, 10**6), (0.85, 50), (0.0001, 50)):
        measuring.measure(job, state, Limits(hours, None, None, None), sentences)
    assert asked == [int(540 / sentence - 3), 50, 10]


@pytest.mark.parametrize(
    "form, flags, said, served",
    [
        ("{}", "", "", ""),
        ("{}@@", "--remove-bpe ", "bpe_codes='bin/codes', ", "--bpe-codes bin/codes "),
        ("\u2581{}", "--remove-bpe sentencepiece ", "bpe=None, ", "--bpe none "),
    ],
)
def test_commands_treat_subwords_as_the_data_do(
    toy, tmp_path, monkeypatch, form, flags, said, served
):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(toy / "bin", "bin")
    words = [form.format(line.split()[0]) for line in open(toy / "dict.tgt.txt", encoding="utf-8")]
    (tmp_path / "bin" / "dict.tgt.txt").write_text(" 1\n".join([*words, ""]), encoding="utf-8")
    (tmp_path / "bin" / "codes").touch()
    words = ["bin", "--path", str(toy / "verifier.pt"), "--out", "out"]
    job, _ = cli.prepare(cli.get_parser().parse_args(words))
    assert f"--gen-subset valid {flags}--beam 1" in commands.decode(job, "src-tgt", "greedy", 1, 1)
    (_, python), (_, server) = commands.further(job, {"src-tgt": "greedy"})
    assert f"data='bin', {said}strategy='greedy', beam=1" in python
    assert f"--data bin {served}--strategy greedy" in server
