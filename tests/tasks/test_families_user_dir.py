"""A --user-dir of one's own, as docs/models.md writes it: its task, its architecture."""

import pathlib
import re

import pytest
import torch
from attempts import words_of

import fairseq_specdec

PAGE = pathlib.Path(fairseq_specdec.__path__[0]).parent / "docs" / "models.md"
OTHER_DECODER = """
from fairseq.models.transformer import TransformerDecoder

class PointerDecoder(TransformerDecoder):
    def output_layer(self, features, **kwargs):
        return super().output_layer(features) + 0

@register_model("pointer_transformer")
class PointerTransformer(TransformerModel):
    @classmethod
    def build_decoder(cls, args, tgt_dict, embed_tokens):
        return PointerDecoder(args, tgt_dict, embed_tokens)

register_model_architecture("pointer_transformer", "pointer_transformer")(base_architecture)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """The page's folder, and another architecture."""
    page = PAGE.read_text(encoding="utf-8")
    code = re.search(r"```python\n(# my_project.*?)```", page, re.S).group(1)
    folder = tmp_path_factory.mktemp("user") / "my_project"
    folder.mkdir()
    (folder / "__init__.py").write_text(code + OTHER_DECODER, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def checkpoint(toy, tmp_path_factory):
    """The toy verifier under the name of another architecture."""

    def write(arch):
        path = tmp_path_factory.mktemp("mine") / "mine.pt"
        state = torch.load(toy.v, weights_only=False)
        model = state["cfg"]["model"]
        model.arch = model._name = arch
        torch.save(state, str(path))
        return path

    return write


def generate(fairseq_command, project, toy, path, task, *words):
    out, _ = fairseq_command(
        "generate", toy.data, "--user-dir", project, "--task", task, "--path", path, "--beam", 4,
        "--cpu", *words, env={"FAIRSEQ_SPECDEC_TRUSTED_ARCHITECTURES": "my_transformer,"
                              "pointer_transformer"},
    )  # fmt: skip
    return words_of(out)


def test_its_task_decides_and_its_architecture_decodes(fairseq_command, project, toy, checkpoint):
    path = checkpoint("my_transformer")
    stock = generate(fairseq_command, project, toy, path, "my_translation")
    ours = generate(
        fairseq_command, project, toy, path, "my_translation_specdec", "--strategy", "iad"
    )
    assert ours == stock and min(map(len, ours.values())) == 3


def test_another_decoder_is_refused_by_name(fairseq_command, project, toy, checkpoint):
    path = checkpoint("pointer_transformer")
    with pytest.raises(AssertionError) as failed:
        generate(fairseq_command, project, toy, path, "my_translation_specdec")
    assert (
        "--path (model 1 of 1) holds a PointerTransformer with decoder PointerDecoder; this "
        "project decodes fairseq's Transformers only\n"
    ) in str(failed.value)
