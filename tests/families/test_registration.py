"""``--task NAME_specdec`` for tasks with and without a dataclass of flags."""

import argparse
import dataclasses

import pytest
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY

from fairseq_specdec import tasks
from fairseq_specdec.config import OWN_FIELDS

OURS = {field.name for field in OWN_FIELDS}
REGISTERED = [name for name in TASK_REGISTRY if name.endswith("_specdec")]


def flags_of(name):
    parser = argparse.ArgumentParser()
    TASK_REGISTRY[name].add_args(parser)
    return {action.dest for action in parser._actions}


@pytest.mark.parametrize("name", REGISTERED)
def test_the_task_keeps_its_flags_and_has_the_decoding_flags(name):
    stock, ours = flags_of(name[: -len("_specdec")]), flags_of(name)
    assert ours == stock | OURS
    assert not stock & OURS, "a flag of ours has the name of one of the task's"
    assert issubclass(TASK_REGISTRY[name], tasks.SpecDecMixin)


def test_a_task_with_a_dataclass_gets_one_with_both():
    made = tasks.register_specdec("translation_lev")
    try:
        fields = {each.name for each in dataclasses.fields(TASK_DATACLASS_REGISTRY[made_name])}
        assert OURS < fields and "noise" in fields
        assert made.__doc__.startswith("``translation_lev``")
    finally:
        TASK_REGISTRY.pop(made_name), TASK_DATACLASS_REGISTRY.pop(made_name)


made_name = "translation_lev_specdec"


def test_a_task_that_does_not_exist_is_named():
    with pytest.raises(ValueError, match=r"register_specdec\('nothing'\): no task of that name"):
        tasks.register_specdec("nothing")
