"""A --user-dir of one's own, as docs/models.md writes it: its task, its architecture."""

import pathlib
import re

import pytest
import torch
from attempts import words_of

import fairseq_specdec

PAGE = pathlib.Path(fairseq_specdec.__path__[0]).parent / "docs" / "models.md"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """The page's folder."""
    page = PAGE.read_text(encoding="utf-8")
    code = re.search(r"```python\n(# my_project.*?)```", page, re.S).group(1)
    folder = tmp_path_factory.mktemp("user") / "my_project"
    folder.mkdir()
    (folder / "__init__.py").write_text(code, encoding="utf-8")
    return folder


def generate(fairseq_command, project, toy, path, task, *words):
    out, _ = fairseq_command(
        "generate", toy.data, "--user-dir", project, "--task", task, "--path", path, "--beam", 4,
        "--cpu", *words, env={"FAIRSEQ_SPECDEC_TRUSTED_ARCHITECTURES": "my_transformer"},
    )  # fmt: skip
    return words_of(out)


def test_its_task_decides_and_its_architecture_decodes(fairseq_command, project, toy, tmp_path):
    state, path = torch.load(toy.v, weights_only=False), tmp_path / "mine.pt"
    model = state["cfg"]["model"]
    model.arch = model._name = "my_transformer"
    torch.save(state, str(path))
    stock = generate(fairseq_command, project, toy, path, "my_translation")
    ours = generate(
        fairseq_command, project, toy, path, "my_translation_specdec", "--strategy", "iad"
    )
    assert ours == stock and min(map(len, ours.values())) == 3
