"""Big Little Decoder as Kim et al. write it (Algorithm 1): one sentence, no cache, no batch."""

import functools
import itertools
from types import SimpleNamespace

import pytest
import torch
from toy_translation import EOS, PAD, make_sample

INFINITY = float("inf")
# Those that say something of their own, and the rest of the product.
CHOSEN = [(0.0, INFINITY), (0.6, 0.2), (0.6, 2.0), (0.95, 0.0), (1.0, 2.0)]
PRODUCT = itertools.product((0.0, 0.6, 0.95, 1.0), (0.0, 0.2, 2.0, INFINITY))
THRESHOLDS = [
    *CHOSEN,
    *(pytest.param(*each, marks=pytest.mark.slow) for each in PRODUCT if each not in CHOSEN),
]


def whole(model, early=False):
    """All logits [T, V] of fairseq's own forward pass, or of its early exit, given a source and an
    output so far."""

    def logits(source, y):
        inputs = make_sample([source])["net_input"]
        with torch.no_grad():
            out, extra = model(prev_output_tokens=torch.tensor([y]), **inputs)
        return (extra["exit_logits"] if early else out)[0]

    return logits


first_layers = functools.partial(whole, early=True)


def big_little(small, big, source, alpha_fb, alpha_rb, window=10, limit=63):
    """Decode a sentence.

    A sentence that the small model ends is not looked at by the big model (Algorithm 1, line 2),
    unless that must drop all tokens (alpha_rb = 0) or </s> comes too early.

    Args:
        small, big: functions as ``whole`` gives them.
        source: words.
        alpha_fb, alpha_rb: thresholds; alpha_fb = 1 is never reached.
        window: most steps of the small model between two of the big one.
        limit: most tokens before </s>.

    Returns:
        The tokens, and how many steps each model took, how many of them rolled back, and whether
        the small model ended the sentence.
    """
    y, pending = [EOS], 0
    count = SimpleNamespace(small=0, big=0, rollbacks=0, unverified=0)
    while len(y) == 1 or pending or y[-1] != EOS:
        ended = len(y) > 1 and y[-1] == EOS
        if ended and alpha_rb > 0 and len(y) > 2:
            count.unverified = 1
            break
        if pending < window and not ended and len(y) - 1 < limit:
            logits = small(source, y)[-1].clone()
            logits[PAD] = float("-inf")
            p = logits.softmax(0)
            if alpha_fb < 1 and float(p.max()) >= alpha_fb:
                y.append(int(p.argmax()))
                pending += 1
                count.small += 1
                continue
        count.big += 1
        log_p = big(source, y).log_softmax(1)
        log_p[:, PAD] = float("-inf")
        log_p[0, EOS] = float("-inf")  # fairseq's --min-len 1
        if len(y) - 1 == limit and not ended:
            log_p[-1, :EOS] = log_p[-1, EOS + 1 :] = float("-inf")
        for m in range(len(y) - pending, len(y)):
            if float(-log_p[m - 1, y[m]]) > alpha_rb:
                y = y[:m] + [int(log_p[m - 1].argmax())]
                count.rollbacks += 1
                break
        else:
            if not ended:
                y.append(int(log_p[-1].argmax()))
        pending = 0
    return y[1:], count


def check(generator, slow, sample):
    """Outputs and steps are those of ``big_little``; returns the tokens and the counters."""
    tokens = [h[0]["tokens"].tolist() for h in generator.generate(generator.models, sample)]
    assert tokens == [y for y, _ in slow]
    stats, counts = generator.stats, [count for _, count in slow]
    assert stats.iterations == sum(count.big + count.unverified for count in counts)
    assert stats.unverified == sum(count.unverified for count in counts)
    assert stats.drafted == sum(count.small for count in counts)
    assert stats.rollbacks == sum(count.rollbacks for count in counts)
    return tokens, stats
