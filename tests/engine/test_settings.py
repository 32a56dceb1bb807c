"""Every setting of fairseq's Transformer is run as stock runs it, or refused by its flag."""

import copy
import pathlib
from argparse import Namespace

import pytest
import torch
import toy_translation
from fairseq.quantization_utils import quantize_model_scalar
from transformer_settings import EXAMPLES, TOGETHER, build, by_engine, by_stock, settings_read

from fairseq_specdec.decoding.builder import check_verifier
from fairseq_specdec.engine.backend import TORCH, NativeBackend
from fairseq_specdec.engine.eager import settings
from fairseq_specdec.engine.eager.settings import FATES, REFUSED, RUN, TRAINING, UNUSED, flag_of
from fairseq_specdec.engine.native.library import load

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "exactness.md"
IN_DECODING = {
    RUN: "run",
    REFUSED: "refused",
    TRAINING: "no effect: training only",
    UNUSED: "no effect: not read, or with a refused flag only",
}


def used(setting):
    """The settings of an example, nested as in ``FATES``."""
    flat = {name.replace(".", "_"): name for name in FATES}
    return {setting} | {flat[name] for name in EXAMPLES[setting] if name in flat}


def test_every_setting_that_fairseq_has_or_reads_is_classified():
    """A release of fairseq with a new setting fails here until somebody has looked at it."""
    assert set(settings.fields()) - set(FATES) == set()
    assert settings_read() - set(FATES) == set()
    assert {"scale_heads", "decoder.layers", "quant_noise.pq"} <= settings_read()
    assert set(EXAMPLES) == set(FATES)


@pytest.mark.parametrize("setting", EXAMPLES)
def test_a_model_with_it_is_decoded_as_stock_does_or_refused(setting, tmp_path):
    try:
        model = build(EXAMPLES[setting], tmp_path)
    except KeyError as error:
        pytest.skip(f"not in this fairseq: {error}")
    refused = [flag_of(name) for name in used(setting) if FATES[name] == REFUSED]
    if not refused:
        check_verifier(model, "--path")
        torch.testing.assert_close(by_engine(model), by_stock(model), atol=2e-5, rtol=0)
        return
    for check in (lambda: check_verifier(model, "--path"), lambda: by_engine(model)):
        with pytest.raises(ValueError) as caught:
            check()
        assert str(caught.value).startswith("--path")
        assert refused[0] in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("native", [False, True], ids=["torch", "native"])
@pytest.mark.parametrize("name", TOGETHER)
def test_models_with_several_settings_are_decoded_as_stock_does(name, native, tmp_path):
    if native and load() is None:
        pytest.skip("no native library here")
    model = build(TOGETHER[name], tmp_path)
    check_verifier(model, "--path")
    backend = NativeBackend(load()) if native else TORCH
    torch.testing.assert_close(by_engine(model, backend), by_stock(model), atol=2e-5, rtol=0)


def test_an_unknown_setting_is_refused_where_it_is_used(tmp_path, monkeypatch):
    """As if a later fairseq had added it."""
    models = {used: build({"no_scale_embedding": used}, tmp_path) for used in (True, False)}
    nested = build({"encoder_learned_pos": True}, tmp_path)
    for name in ("no_scale_embedding", "encoder.learned_pos"):
        monkeypatch.delitem(settings.FATES, name)
    check_verifier(models[False], "--path")
    with pytest.raises(ValueError, match="--path: the model uses --no-scale-embedding True"):
        check_verifier(models[True], "--path")
    with pytest.raises(ValueError, match="--path: the model uses --encoder-learned-pos True"):
        check_verifier(nested, "--path")


@pytest.mark.slow
def test_scalar_quantisation_is_refused_because_stock_depends_on_what_came_before(monkeypatch):
    """Activations are scaled as those of the first batch were, and anew every 1,000 calls."""
    monkeypatch.setattr(torch.Tensor, "cuda", lambda tensor: tensor)  # stock asks for a GPU
    task = toy_translation.make_task()

    def quantised():
        model = copy.deepcopy(toy_translation.toy_model("separate_embeddings"))
        return quantize_model_scalar(model, Namespace(quant_noise_scalar=0.1)).eval()

    def decode(model, sentence):
        generator = task.build_generator([model], Namespace(beam=1))
        sample = toy_translation.make_sample([sentence])
        return task.inference_step(generator, [model], sample)[0][0]["tokens"].tolist()

    short, *sentences = [toy_translation.sentences(24, seed=7)[i] for i in (3, 2, 6, 9, 10)]
    alone = [decode(quantised(), sentence) for sentence in sentences]
    used = quantised()
    decode(used, short)
    after = [decode(copy.deepcopy(used), sentence) for sentence in sentences]
    assert decode(quantised(), sentences[0]) == alone[0]
    assert sum(a != b for a, b in zip(alone, after)) >= 2


def table():
    """The rows that docs/exactness.md should have, one for a setting of both sides."""
    rows = {}
    for name, fate in FATES.items():
        rows.setdefault((name.split(".")[-1], fate), []).append(f"`{flag_of(name)}`")
    return [
        f"| {', '.join(sorted(flags, reverse=True))} | {IN_DECODING[fate]} |"
        for (_, fate), flags in sorted(rows.items())
    ]


def test_the_docs_have_the_table():
    written = [row for row in PAGE.read_text().splitlines() if row.startswith("| `--")]
    assert written == table(), "docs/exactness.md should read:\n" + "\n".join(table())
