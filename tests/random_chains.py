"""What ``chain_steps`` takes, but for ``judges``."""

import torch


def random_chains(rows, masks, count, width, vocabulary=300, dtype=torch.float32):
    """Random chains; the logits and the table of what tokens ask of a state have a dtype."""
    of_mask, bonuses = torch.randn(rows, masks, width), torch.randn(rows, masks, count).to(dtype)
    candidates = torch.rand(rows, masks, vocabulary).topk(count).indices
    tables = torch.randn(vocabulary, width), torch.randn(width, width) / width**0.5
    for_token = torch.randn(vocabulary, width).div(width**0.5).to(dtype)
    return of_mask, bonuses, candidates, torch.randint(vocabulary, (rows,)), (*tables, for_token)


def tied_chains(rows):
    """Chains in which many candidates have exactly the same score, NaN or -inf."""
    given = random_chains(rows, 3, 12, 8)
    given[1].copy_(torch.randint(2, given[1].shape))
    given[1][torch.rand(given[1].shape) < 0.1] = float("-inf")
    given[1][: rows // 4, 1] = float("-inf")
    given[1][rows // 2 :, 2][torch.rand(rows - rows // 2, 12) < 0.1] = float("nan")
    given[-1][2].zero_()[:, 0] = torch.randint(-1, 2, (300,))  # a sum has no order then
    return given
