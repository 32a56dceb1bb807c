"""Keyword arguments that are decoding flags, and those that are none."""

import re

import pytest

from fairseq_specdec.commands.in_fairseq import hydra_field
from fairseq_specdec.errors import UsageError
from fairseq_specdec.hub.flags import in_python, split_flags


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("top_betta", 5, "no such decoding flag; did you mean top_beta?"),
        ("xyzzy", 5, "no such decoding flag; there are accept_epsilon, "),
        ("tau", "1", "expected float, got '1'"),
        ("top_beta", 2.5, "expected int, got 2.5"),
        ("block_size", True, "expected int, got True"),
        ("drafter_dtype", None, "expected str, got None"),
    ],
)
def test_other_names_and_types_are_refused(name, value, message):
    with pytest.raises(TypeError, match=re.escape(f"{name}: {message}")):
        split_flags("gad", None, {name: value})


def test_mistakes_are_reworded():
    said = "--drafter-path: --strategy iad wants --top-beta 1 of --path; fairseq-preprocess --foo"
    with pytest.raises(UsageError) as caught, in_python():
        raise UsageError(*said.replace("; ", ": ").split(": "))
    assert str(caught.value) == (
        "drafter: strategy iad wants top_beta 1 of verifier; fairseq-preprocess --foo"
    )
    assert str(caught.value.original) == said
    hydra = UsageError("--top-beta 0", "not --arch, --dropout, --no-such-flag")
    assert str(hydra.reworded(hydra_field)) == (
        "task.top_beta 0: not model._name, model.dropout, --no-such-flag"
    )
