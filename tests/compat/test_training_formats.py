"""Number formats that need a GPU are named before training begins."""

import logging

import pytest
import torch
from fairseq.dataclass.configs import FairseqConfig
from fairseq.trainer import Trainer
from in_process import flash_attention_kept
from omegaconf import OmegaConf

from fairseq_specdec.engine.eager import linear

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="on machines without a GPU")


@pytest.fixture(autouse=True)
def flash_attention():
    with flash_attention_kept():
        yield


class Model(torch.nn.Linear):
    """What a trainer asks of a model and of a criterion."""

    def __init__(self):
        super().__init__(1, 1)


def trainer(**common):
    cfg = OmegaConf.structured(FairseqConfig())
    cfg.distributed_training.distributed_world_size = 1
    cfg.common.update(dict(cpu=True, **common))
    return Trainer(cfg, None, Model(), Model())


def test_fp16_is_refused():
    with pytest.raises(ValueError, match="--fp16: needs a GPU"):
        trainer(fp16=True)
    assert trainer(fp16=True, memory_efficient_fp16=True).model.weight.dtype == torch.float16


@pytest.mark.parametrize("native", [True, False])
def test_formats_that_do_not_pay_are_named(native, monkeypatch, caplog):
    monkeypatch.setattr(linear, "computes_in_bf16", lambda: native)
    with caplog.at_level(logging.WARNING):
        trainer()
        assert not caplog.text
        trainer(bf16=True)
        assert ("--bf16: this CPU emulates it" in caplog.text) == (not native)
        trainer(amp=True)
    assert "--amp: has no effect without a GPU" in caplog.text
