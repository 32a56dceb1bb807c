"""Documented trainings keep the checkpoint of the best drafts, not that of the least loss."""

import pathlib
import re

import pytest
import yaml

REPO = pathlib.Path(__file__).resolve().parents[2]
DRAFTS = ("glancing_block_loss", "blockwise_loss")
COMMAND = re.compile(r"^fairseq-train (?:.*\\\n)*.*", re.M)


def commands():
    pages = [REPO / "README.md", *sorted((REPO / "docs").rglob("*.md"))]
    for page in pages:
        for command in COMMAND.findall(page.read_text(encoding="utf-8")):
            if any(f"--criterion {name}" in command for name in DRAFTS):
                yield pytest.param(
                    command, id=f"{page.stem}: {command.split('--arch ')[1].split()[0]}"
                )


@pytest.mark.parametrize("command", list(commands()))
def test_a_command_keeps_the_best_drafts(command):
    assert "--best-checkpoint-metric accepted" in command
    assert "--maximize-best-checkpoint-metric" in command


@pytest.mark.parametrize("path", sorted((REPO / "configs").glob("*.yaml")), ids=lambda p: p.stem)
def test_a_configuration_keeps_the_best_drafts(path):
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    if config["criterion"]["_name"] in DRAFTS:
        assert config["checkpoint"]["best_checkpoint_metric"] == "accepted"
        assert config["checkpoint"]["maximize_best_checkpoint_metric"] is True
