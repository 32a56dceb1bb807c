import pytest
import torch

from fairseq_specdec.engine.devices import check_device, supported

GPU = torch.device("cuda", 1)
V100, A10 = (7, 0), (8, 6)


@pytest.fixture
def card(monkeypatch):
    """Makes torch tell of a card, device 1."""

    def make(capability):
        def of_device_1(answer):
            def asked(device):
                assert device == GPU
                return answer

            return asked

        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "get_device_capability", of_device_1(capability))
        monkeypatch.setattr(torch.cuda, "get_device_name", of_device_1("Tesla V100-SXM2-16GB"))

    return make


def test_a_card_without_kernels_is_refused(card, monkeypatch):
    def ones(size, device):
        assert device == GPU
        raise RuntimeError("CUDA error: no kernel image is available\nCompile with ...")

    card(V100)
    monkeypatch.setattr(torch, "ones", ones)
    check_device(torch.device("cpu"))
    with pytest.raises(ValueError, match=r"Tesla V100-SXM2-16GB .sm_70.: .*no kernel image is av"):
        check_device(GPU)
    monkeypatch.setattr(torch, "ones", lambda size, device: torch.zeros(size))
    check_device(GPU)


def test_bf16_becomes_fp16_where_the_card_has_none(card, caplog):
    card(V100)
    assert supported(torch.bfloat16, torch.device("cpu")) == torch.bfloat16
    assert supported(torch.float16, GPU) == torch.float16 and not caplog.text
    assert supported(torch.bfloat16, GPU) == torch.float16
    assert "no bf16 units; the drafter runs in fp16" in caplog.text
    caplog.clear()
    card(A10)
    assert supported(torch.bfloat16, GPU) == torch.bfloat16 and not caplog.text
