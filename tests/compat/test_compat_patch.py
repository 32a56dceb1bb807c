"""The fixes as a whole: applied at import, and once."""

import types

from fairseq import options, trainer, utils
from fairseq.data import data_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.models import distributed_fairseq_model
from fairseq.modules import transformer_layer

from fairseq_specdec import compat
from fairseq_specdec.compat.patch import wrap_once

PATCHED = (
    (data_utils, "batch_by_size"),
    (transformer_layer.TransformerEncoderLayerBase, "__init__"),
    (transformer_layer.TransformerEncoderLayerBase, "upgrade_state_dict_named"),
    (distributed_utils, "infer_init_method"),
    (distributed_utils, "_infer_torch_distributed_launch_init"),
    (distributed_fairseq_model, "DistributedDataParallel"),
    (options, "parse_args_and_arch"),
    (trainer.Trainer, "__init__"),
    (utils, "import_user_module"),
)


def test_applying_every_fix_again_changes_nothing():
    before = [getattr(owner, name) for owner, name in PATCHED]
    compat.apply()
    assert [getattr(owner, name) for owner, name in PATCHED] == before


def test_wrap_once_wraps_once_per_fix_and_keeps_the_name():
    def double(x):
        """Twice x."""
        return 2 * x

    owner = types.SimpleNamespace(double=double)
    for _ in range(3):
        wrap_once(owner, "double", "one", lambda original, x: original(x) + 1)
    assert owner.double(5) == 11
    assert owner.double.__doc__ == "Twice x."
    wrap_once(owner, "double", "two", lambda original, x: original(x) * 10)
    wrap_once(owner, "double", "one", lambda original, x: original(x) + 1)
    assert owner.double(5) == 110
