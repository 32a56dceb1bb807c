"""Make tests/fixtures/hf: model folders of a few KB, and what transformers says with them.

``python tests/conversion/make_hf_fixtures.py`` needs the extra ``hf`` and transformers. They were
made with transformers 4.57.6, tokenizers 0.22.2 and sentencepiece 0.2.3.
"""

import json
import pathlib
import shutil

import hf_models
import torch

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "hf"
# Nothing of them is read here, or it is read from another file.
LEFT_OUT = ("tokenizer.json", "added_tokens.json")
STORED = {
    "marian": False, "m2m_100": True, "nllb": True, "mbart25": True, "mbart50": True, "bart": False,
}  # fmt: skip


def make(family, safe):
    """One folder, its weights in halves: in safetensors, or pickled."""
    folder = FOLDER / family
    shutil.rmtree(folder, ignore_errors=True)
    model, tokenizer, langs = hf_models.made(family, folder, rule="identity")
    model.half().save_pretrained(folder, safe_serialization=safe)
    if not safe:
        (folder / "model.safetensors").unlink()
    model = type(model).from_pretrained(folder, dtype=torch.float32)
    sources = hf_models.sentences(24)
    # Without tokenizer.json transformers' tokenizer is the one in Python, which strips.
    expected = [each.strip() for each in hf_models.generated(model, tokenizer, langs, sources)]
    ids = [tokenizer(each)["input_ids"] for each in sources]
    facts = {"languages": langs, "sources": sources, "ids": ids, "outputs": expected}
    with open(folder / "expected.json", "w", encoding="utf-8") as stream:
        json.dump(facts, stream, ensure_ascii=False)
    for name in LEFT_OUT if family != "m2m_100" else ():
        (folder / name).unlink(missing_ok=True)
    print(family, model.dtype, len(set(expected)), "outputs of", len(sources))  # noqa: T201


if __name__ == "__main__":
    hf_models.WIDTH, hf_models.LAYERS = 24, 1
    for name, kind in STORED.items():
        make(name, kind)
