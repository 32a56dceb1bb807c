"""``specdec-env --flags`` lists every flag of the task; of a strategy those that it reads."""

import dataclasses

import pytest
from fairseq.tasks.translation import TranslationConfig

from fairseq_specdec.config import TranslationSpecDecConfig
from fairseq_specdec.decoding.strategies import OWN_FLAGS, STRATEGIES
from fairseq_specdec.environment.cli import cli_main
from fairseq_specdec.environment.listed_flags import listed


def flags_in(text):
    return {line.split()[0] for line in text.splitlines() if line.startswith("  --")}


def test_all_flags_of_the_task_are_listed():
    own = {field.name for field in dataclasses.fields(TranslationSpecDecConfig)}
    own -= set(TranslationConfig.__dataclass_fields__)
    assert flags_in(listed()) == {"--" + name.replace("_", "-") for name in own}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_strategy_lists_what_it_reads(strategy):
    flags = flags_in(listed(strategy))
    for name, owners in OWN_FLAGS.items():
        assert ("--" + name.replace("_", "-") in flags) == (strategy in owners)
    assert ("--drafter-path" in flags) == STRATEGIES[strategy].needs_drafter


def test_the_command_prints_them(capsys):
    cli_main(["--flags", "iad"])
    printed = capsys.readouterr().out
    assert "--strategy iad" in printed and "--realign" in printed and "--tau" not in printed
    with pytest.raises(SystemExit, match="^specdec-env: error: --flags gadd: unknown"):
        cli_main(["--flags", "gadd"])
