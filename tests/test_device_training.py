"""One training step of every model and criterion as on a GPU."""

import pytest
import torch
from device_guard import DeviceGuard
from device_training import CASES, batch

pytestmark = pytest.mark.skipif(
    not hasattr(torch.Tensor, "untyped_storage"), reason="needs the modes of torch 2"
)


@pytest.mark.parametrize("half", [False, True], ids=["fp32", "fp16"])
@pytest.mark.parametrize("case", CASES)
def test_a_step(case, half):
    torch.manual_seed(0)
    make, criterion = CASES[case]
    with DeviceGuard() as guard:
        trained, judge, given = make(), criterion(), batch()
        (trained.half() if half else trained).to("cuda").train()
        trained.set_num_updates(3)
        for _ in range(2):  # the first one moves tables and the verifier
            trained.zero_grad()
            guard.clear()
            loss, _, log = judge(trained, given)
            (loss * (128.0 if half else 1.0)).backward()
        waits = dict(guard.waits)
        assert loss.is_cuda and bool(torch.isfinite(loss))
        missing = [
            name for name, p in trained.named_parameters() if p.requires_grad and p.grad is None
        ]
        assert not missing, "data-parallel training would wait for these gradients"
        assert all(p.grad.is_cuda for p in trained.parameters() if p.grad is not None)
        assert all(x.is_cuda for x in log.values() if isinstance(x, torch.Tensor))
        most = OF_ALL_HEADS if case == "blockwise, all heads" else MOST_WAITS
        assert sum(waits.values()) <= most, (sum(waits.values()), waits)


# Of a step: choosing places by a mask, and asking for padding, in fairseq's layers too.
MOST_WAITS, OF_ALL_HEADS = 15, 23
