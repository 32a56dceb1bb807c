"""Keyword arguments that are decoding flags, and those that are none."""

import pytest

from fairseq_specdec.commands.in_fairseq import hydra_field
from fairseq_specdec.errors import UsageError
from fairseq_specdec.hub.flags import in_python, split_flags


def test_flags_go_where_they_belong():
    given = {"block_size": 2, "max_len_b": 30, "sampling": True}
    settings, args = split_flags("iad", None, given)
    assert (settings.strategy, settings.drafter_path, settings.block_size) == ("iad", None, 2)
    assert (args.max_len_b, args.sampling, args.beam, args.min_len) == (30, True, 1, 1)


@pytest.mark.parametrize(
    "name, message",
    [
        ("top_betta", "top_betta: no such decoding flag; did you mean top_beta?"),
        ("xyzzy", "xyzzy: no such decoding flag; there are accept_epsilon, "),
    ],
)
def test_other_names_are_refused(name, message):
    with pytest.raises(TypeError, match=message):
        split_flags("gad", None, {name: 5})


@pytest.mark.parametrize(
    "name, value, kind",
    [
        ("tau", "1", "float"),
        ("top_beta", 2.5, "int"),
        ("block_size", True, "int"),
        ("drafter_dtype", None, "str"),
    ],
)
def test_values_of_another_type_are_refused(name, value, kind):
    with pytest.raises(TypeError, match=f"{name}: expected {kind}, got {value!r}"):
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
