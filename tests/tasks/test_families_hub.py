"""fairseq's own hub with the families' models: with stock's task and with this project's."""

import pytest
from fairseq.models.transformer import TransformerModel
from toy_translation import sentences

TEXTS = [" ".join(f"w{word}" for word in words) for words in sentences(30, seed=9)]


def hub(data, model, **flags):
    folder, name = str(model.path.parent), model.path.name
    pair = {"source_lang": "en", "target_lang": "de"}
    return TransformerModel.from_pretrained(folder, name, str(data), **pair, **flags)


@pytest.mark.parametrize(
    "name, beam", [("m2m", 1), pytest.param("mbart25", 5, marks=pytest.mark.slow), ("separate", 5)]
)
def test_the_hub_translates_as_stock_does(languages, family, name, beam):
    model = family(name)
    task = model.task + "_specdec"
    stock = hub(languages, model).translate(TEXTS, beam=beam)
    assert len(set(stock)) > 20
    for form in (task, {"_name": task, "strategy": "iad"}):
        ours = hub(languages, model, task=form)
        assert type(ours.task).__name__.startswith("SpecDec")
        assert ours.translate(TEXTS, beam=beam) == stock
