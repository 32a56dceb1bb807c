"""A step while it runs: its commands, their failures, its record; the devices at hand."""

import json
import os

import pytest
from launch import Devices
from recipe import Recipe, StepError, part
from step import Step


@pytest.fixture
def make_step(tmp_path, warm_python):
    """A step of the recipe wmt14_ende, with these settings."""

    def make(**settings):
        environment = dict(os.environ, WORK=str(tmp_path / "work"), PYTHON=str(warm_python.python))
        return Step(Recipe("wmt14_ende", {**environment, **settings}), "04_train")

    return make


def test_a_command_that_fails_is_named_with_its_log(make_step, tmp_path):
    step, log = make_step(), tmp_path / "x.log"
    with pytest.raises(StepError, match=f"sh failed: see {log}"):
        step.run("sh", "-c", "echo first; exit 3", log=log)
    with pytest.raises(StepError, match="ask again"):
        step.run("sh", "-c", "echo second >&2; exit 3", log=log, failure="ask again")
    assert log.read_text() == "first\nsecond\n"
    with pytest.raises(StepError, match="absent not found: run 'pip install -e .*"):
        step.need("sh", "absent")


def test_a_file_is_made_once_and_never_by_half(make_step, tmp_path):
    step, path = make_step(), tmp_path / "new" / "file"
    with pytest.raises(StepError):
        step.produce(path, "sh", "-c", "echo half; exit 1")
    assert not path.exists()
    for text in ("whole", "again"):
        step.produce(path, "echo", text)
    assert path.read_text() == "whole\n" and len(step.commands) == 2


def test_a_record_holds_for_the_inputs_that_it_names(make_step, tmp_path):
    step = make_step(SEED="7")
    work = step.path("WORK")
    given, made, record = work / "in", work / "out", work / "provenance.json"
    with pytest.raises(ValueError, match="in is missing: run the step that makes it first"):
        step.finished(record, [given])
    given.write_text("1")
    assert not step.finished(record, [given])
    step.run("cp", given, made)
    step.record(record, [given], made)
    recorded = json.loads(record.read_text())
    assert recorded["commands"] == ["cp $WORK/in $WORK/out"] and recorded["seed"] == "7"
    assert list(recorded["outputs"]) == ["$WORK/out"] and recorded["step"] == "04_train"
    assert step.finished(record, [given])
    given.write_text("2")
    with pytest.raises(ValueError, match=r"made from another \$WORK/in; delete the folder"):
        step.finished(record, [given])


def test_a_record_holds_for_the_part_of_a_recipe_that_was_read(make_step, tmp_path):
    step, path = make_step(), tmp_path / "recipe.yaml"
    record = step.path("WORK") / "provenance.json"

    def done(text, saved):
        path.write_text(text)
        os.utime(path, (saved, saved))
        return step.finished(record, [part(path, "sources")])

    assert not done("sources: [{a: 1}]\n", 1)
    step.record(record, [part(path, "sources")])
    assert done("title: other\nsources:\n  # a remark\n  - a: 1\n", 2)
    with pytest.raises(ValueError, match=r"made from another .*recipe\.yaml#sources"):
        done("sources: [{a: 2}]\n", 3)


def test_processes_share_the_threads_of_a_cpu(make_step):
    step = make_step(GPUS="2", THREADS="5", DEVICE="cpu", CPU_PRECISION="fp32")
    devices = Devices(step)
    assert (devices.cpu, devices.gpus, devices.half) == (True, 2, ["--cpu"])
    assert step.environment["OMP_NUM_THREADS"] == "2" and devices.precision == "fp32"
    with pytest.raises(StepError, match="GPUS: 0 is no number from 1"):
        Devices(make_step(GPUS="0", DEVICE="cpu"))
