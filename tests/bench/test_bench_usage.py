"""Systems that were to run on one thread, and did not have a core to themselves."""

import pytest
import torch

from fairseq_specdec.bench import session, tables, usage
from fairseq_specdec.bench.timing import System


@pytest.fixture(autouse=True)
def _threads():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def system(name, wall, cpu):
    made = System(name, None, [])
    made.times = [[wall / 4, wall / 4], [wall / 4, wall / 4]]
    made.cpu = cpu
    return made


def test_times_that_agree_are_not_spoken_of():
    calm = [system("a", 10.0, 8.6), system("b", 10.0, 11.4), system("c", 10.0, 10.0)]
    assert usage.thread_warnings(calm, False, 1) == []


def test_a_core_that_was_shared_is_distinguished_from_a_second_thread():
    shared, more = usage.thread_warnings(
        [system("a", 10.0, 8.4), system("b", 10.0, 11.6)], False, 8
    )
    assert shared.startswith("WARNING: a used 8.40 s of CPU in 10.00 s of wall time: other")
    assert "batch size 8" in shared
    assert "it ran more than one thread" in more


def test_more_threads_and_a_gpu_are_not_judged():
    odd = [system("a", 10.0, 1.0)]
    assert usage.thread_warnings(odd, True, 1) == []
    torch.set_num_threads(2)
    assert usage.thread_warnings(odd, False, 1) == []


def results(name="gad", count=1, **part):
    row = {"system": name, "ms_by_section": None}
    facts = {"command": "x", "threads": count}
    empty = dict.fromkeys(("quality", "memory"))
    return dict(empty, runs=[dict(part, rows=[row])], provenance=facts)


def test_the_warning_stands_under_the_tables():
    line = "WARNING: gad, batch size 1: ..."
    assert line in tables.legend(results(thread_warnings=[line]))


@pytest.mark.parametrize(
    "name, count, warned",
    [
        ("CTranslate2 int8 beam 1", 2, True),
        ("CTranslate2 int8 beam 1", 1, False),
        ("gad", 2, False),
    ],
)
def test_threads_inside_a_sentence_of_other_engines_are_spoken_of(name, count, warned):
    warnings_ = [line for line in tables.legend(results(name, count)) if "threads inside" in line]
    assert bool(warnings_) is warned


@pytest.mark.parametrize("words, count", [([], 1), (["--threads", "2"], 2)])
def test_one_thread_unless_asked_otherwise(pair, words, count):
    torch.set_num_threads(3)
    line = [pair.data, "--path", pair.v, "-s", "src", "-t", "tgt", "--cpu", *words]
    session.read(line).workload()
    assert torch.get_num_threads() == count


def test_the_command_warns_when_the_two_times_disagree(bench, monkeypatch):
    timed = System.timed

    def idle(self, sample):
        output, wall, cpu = timed(self, sample)
        return output, wall, cpu if self.name == "fairseq beam 1" else 0.5 * wall

    monkeypatch.setattr(System, "timed", idle)
    result, printed = bench("--system", "copy: --strategy iad", "--warmup", 0, "--limit", 2)
    (part,) = result["runs"]
    warnings_ = [line for line in part["thread_warnings"] if line.startswith("WARNING: copy used")]
    assert len(warnings_) == 1 and f"- {warnings_[0]}" in printed


def test_all_systems_have_the_same_threads(pair):
    line = [pair.data, "--path", pair.v, "-s", "src", "-t", "tgt", "--cpu", "--threads", "2"]
    plain, own = ("copy: --strategy iad", "copy: --strategy iad --threads 3")
    plans = session.read([*line, "--system", plain]).plans
    assert [(plan.name, plan.settings["threads"]) for plan in plans] == [("greedy", 2), ("copy", 2)]
    with pytest.raises(ValueError, match="^--system 'copy': --threads: all systems have the same"):
        session.read([*line, "--system", own])
