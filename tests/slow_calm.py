"""CALM as Schuster et al. write it: one sentence, no cache, fairseq's own layers."""

import math

import torch
import torch.nn.functional as F
from toy_translation import EOS, PAD, make_sample


def sureness(model, before, state, confidence):
    """Of the exit that gave a state [1, 1, C]; ``before``: the state before its layer."""
    if confidence == "saturation":
        return float(F.cosine_similarity(before, state, dim=2))
    first, second = model.exit_logits(state)[0, 0].softmax(0).topk(2).values.tolist()
    return first - second


@torch.no_grad()
def calm(model, source, threshold, confidence="softmax", decay=None, limit=63):
    """Decode a sentence.

    Returns:
        The tokens, their log-probabilities, and after how many layers each left.
    """
    decoder = model.decoder
    encoder_out = model.encoder(**make_sample([source])["net_input"])
    # What each layer reads of each token: a token that left is read as it left.
    read = [[] for _ in decoder.layers]
    y, scores, depths = [EOS], [], []
    while len(y) == 1 or y[-1] != EOS:
        t = len(y) - 1
        least = threshold
        if decay is not None:
            least = min(1.0, 0.9 * threshold + 0.1 * math.exp(-decay * t / limit))
        _, extra = decoder.extract_features(torch.tensor([y]), encoder_out)
        state = extra["inner_states"][0][-1:]
        for depth, layer in enumerate(decoder.layers, start=1):
            before = state
            read[depth - 1].append(state)
            block = torch.cat(read[depth - 1])
            out, *_ = layer(
                block,
                encoder_out["encoder_out"][0],
                encoder_out["encoder_padding_mask"][0],
                self_attn_mask=decoder.buffered_future_mask(block),
            )
            state = out[-1:]
            if depth in model.exits and sureness(model, before, state, confidence) >= least:
                break
        for upper in read[depth:]:
            upper.append(state)
        log_p = model.exit_logits(state)[0, 0].log_softmax(0)
        allowed = log_p.clone()
        allowed[[PAD, EOS] if t == 0 else PAD] = float("-inf")  # fairseq's --min-len 1
        token = EOS if t == limit else int(allowed.argmax())
        y.append(token)
        scores.append(float(log_p[token]))
        depths.append(depth)
    return y[1:], scores, depths
