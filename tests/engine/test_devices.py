import copy

import pytest
import torch
from toy_translation import toy_drafter, toy_model

from fairseq_specdec.drafting.base import DraftOptions, move_to_verifier
from fairseq_specdec.engine.devices import check_device, runs_on, supported, why_not

OLD = ["sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"]
NEW = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120"]
GPU = torch.device("cuda", 1)
P100, V100, A10, H100, RTX50 = (6, 0), (7, 0), (8, 6), (9, 0), (12, 0)


@pytest.mark.parametrize(
    "capability, archs, runs",
    [
        (P100, OLD, True), (V100, OLD, True), (A10, OLD, True), (H100, OLD, True),
        (RTX50, OLD, False), (P100, NEW, False), (V100, NEW, False), (A10, NEW, True),
        (RTX50, NEW, True), ((12, 1), NEW, True), ((13, 0), NEW, True), ((8, 9), ["sm_86"], True),
        ((8, 0), ["sm_86"], False), (H100, ["sm_90a"], True), (H100, ["gfx90a"], False),
    ],
)  # fmt: skip
def test_which_builds_run_on_which_cards(capability, archs, runs):
    assert runs_on(capability, archs) == runs
    assert (why_not(capability, archs, "a card") is None) == runs


@pytest.mark.parametrize("capability, archs, index", [(V100, NEW, "cu126"), (RTX50, OLD, "cu128")])
def test_the_remedy_is_a_command(capability, archs, index):
    reason = why_not(capability, archs, "Tesla")
    number = "".join(map(str, capability))
    assert reason.startswith(f"Tesla (sm_{number}): ") and "\n" not in reason
    assert "pip install" in reason and f"--index-url https://download.pytorch.org/whl/{index}" in (
        reason
    )


def test_cards_before_any_build():
    reason = why_not((3, 5), NEW, "Tesla K40")
    assert "pip install" not in reason and "--cpu" in reason


@pytest.fixture
def card(monkeypatch):
    """Makes torch tell of a card, device 1."""

    def make(capability, archs=OLD):
        def of_device_1(answer):
            def asked(device):
                assert device == GPU
                return answer

            return asked

        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: archs)
        monkeypatch.setattr(torch.cuda, "get_device_capability", of_device_1(capability))
        monkeypatch.setattr(torch.cuda, "get_device_name", of_device_1("Tesla V100-SXM2-16GB"))

    return make


def test_a_card_without_kernels_is_refused(card):
    card(V100)
    check_device(GPU)
    card(V100, NEW)
    check_device(torch.device("cpu"))
    with pytest.raises(ValueError, match="Tesla V100-SXM2-16GB .sm_70.: .*cu126"):
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


def test_drafters_ask(monkeypatch):
    asked = []

    def fp16(dtype, device):
        asked.append((dtype, device.type))
        return torch.float16

    monkeypatch.setattr("fairseq_specdec.drafting.base.supported", fp16)
    drafter = copy.deepcopy(toy_drafter())
    move_to_verifier(drafter, toy_model(), DraftOptions(4, 1, 2, dtype=torch.bfloat16))
    assert asked == [(torch.bfloat16, "cpu")]
    assert next(drafter.parameters()).dtype == torch.float16
