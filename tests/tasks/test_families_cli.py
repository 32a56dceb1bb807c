"""fairseq's other families of models, trained by its own tasks, decode as stock decodes them:
by fairseq-generate, and by fairseq's own hub with either task."""

import pytest
from attempts import assert_same, words_of
from fairseq.models.transformer import TransformerModel
from families_toys import FAMILIES, SIZES, pair_of
from in_process import run_here
from toy_translation import assert_diverse, sentences

TEXTS = [" ".join(f"w{word}" for word in words) for words in sentences(30, seed=9)]
FLAGS = {"no_repeat_ngram_size": 3, "lenpen": 0.6}
# One of each task; the others differ in their flags, and are for nightly runs.
COMMON = ("m2m", "separate")


def decoded(languages, model, task, **flags):
    """What fairseq-generate prints from English to German."""
    given = {**pair_of("de"), "batch_size": 16, **flags}
    given.update(task=task, path=model.path, **model.languages)
    return run_here("generate", languages, **given)[0]


def compare(languages, model, beam, **ours):
    flags = {"beam": beam, "nbest": min(beam, 3), **FLAGS}
    stock = decoded(languages, model, model.task, **flags)
    assert_diverse(list(words_of(stock).values()))
    outputs = decoded(languages, model, model.task + "_specdec", **flags, **ours)
    assert_same(outputs, stock, SIZES["test"] * flags["nbest"])


# Each pair of a family, a beam and a backend; the product is for nightly runs.
PAIRS = [(1, "native"), (5, "torch"), (1, "torch"), (5, "native")]


@pytest.mark.parametrize(
    "name, beam, backend",
    [(name, *PAIRS[(2 * n + m) % 4]) for n, name in enumerate(COMMON) for m in (0, 1)],
)
def test_equals_stock(languages, family, name, beam, backend):
    compare(languages, family(name), beam, backend=backend, strategy="iad")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["native", "torch"])
@pytest.mark.parametrize("strategy", ["greedy", "iad"])
@pytest.mark.parametrize("beam", [1, 5])
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_equals_stock(languages, family, name, beam, strategy, backend):
    compare(languages, family(name), beam, strategy=strategy, backend=backend)


@pytest.mark.parametrize(
    "name, beam", [("m2m", 1), pytest.param("mbart25", 5, marks=pytest.mark.slow), ("separate", 5)]
)
def test_the_hub_translates_as_stock_does(languages, family, name, beam):
    model = family(name)

    def hub(**flags):
        place = (str(model.path.parent), model.path.name, str(languages))
        return TransformerModel.from_pretrained(*place, **pair_of("de"), **flags)

    stock = hub().translate(TEXTS, beam=beam)
    assert len(set(stock)) > 20
    for form in (model.task + "_specdec", {"_name": model.task + "_specdec", "strategy": "iad"}):
        ours = hub(task=form)
        assert type(ours.task).__name__.startswith("SpecDec")
        assert ours.translate(TEXTS, beam=beam) == stock
