"""A random Transformer in Marian's names."""

import marian
import pytest
import shapes
import torch


@pytest.fixture
def bench(monkeypatch, tmp_path):
    """One layer, post-norm, few words."""
    monkeypatch.setitem(shapes.SHAPES, "base", (64, shapes._shape(1, 32, 64, 2)))
    return shapes.make("base", 4, 12, str(tmp_path), rows=2)


def test_all_weights_are_written_with_end_and_unknown_first(bench):
    arrays = marian.arrays(bench.model)
    kept = {name: tensor for name, tensor in bench.model.named_parameters() if tensor.dim()}
    tied = {tensor.data_ptr(): tensor.numel() for tensor in kept.values()}
    bias = arrays.pop("decoder_ff_logit_out_b")
    assert sum(array.size for array in arrays.values()) == sum(tied.values())
    table = bench.model.decoder.embed_tokens.weight.detach()
    assert arrays["Wemb"][:2].tolist() == table[2:4].tolist()
    assert arrays["Wemb"][4:].tolist() == table[4:].tolist()
    assert bias[0, :3].tolist() == [-100, -100, 0]
    query = bench.model.decoder.layers[0].encoder_attn.q_proj.weight.detach()
    assert torch.equal(torch.tensor(arrays["decoder_l1_context_Wq"]), query.t())


def test_what_marian_does_not_run_is_known():
    runs = {name for name, (_, settings) in shapes.SHAPES.items() if marian.can_write(settings)}
    assert runs == {"base", "small"}


@pytest.mark.skipif(not marian.installed(), reason="needs pymarian")
def test_outputs_are_as_long_as_asked(bench, tmp_path):
    made = marian.Marian(bench.model, str(tmp_path), "avx2")
    made.shortlist(bench.sources)
    lines = [marian.line(row) for row in bench.sources[0]]
    for kind, listed in (("float32", False), ("int8", True)):
        outputs = made.translator(kind, 13 / 12, 2, listed)(lines)
        assert [len(line.split()) for line in outputs] == [13, 13]
