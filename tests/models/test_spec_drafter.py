import torch
from toy_drafter import make_batch, make_drafter

from fairseq_specdec.training.block_noising import block_targets


def test_every_parameter_learns_with_and_without_glancing():
    """Data-parallel training fails on a parameter that gets no gradient."""
    model = make_drafter(source_copy=True, share_all_embeddings=False, encoder_learned_pos=True)
    batch = make_batch()
    cuts = torch.zeros(5, 1, dtype=torch.long)
    targets = block_targets(batch["target"], cuts, 4, 1)
    for ratio in (0.0, 1.0):
        model.zero_grad()
        output = model(**batch["net_input"], cuts=cuts, targets=targets, glancing_ratio=ratio)
        output["logits"].float().pow(2).sum().backward()
        missing = [n for n, p in model.named_parameters() if p.grad is None]
        assert not missing, missing
