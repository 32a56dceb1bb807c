"""What an attached drafter reads of its verifier."""

from toy_translation import EOS, make_sample, pad_to


def reading(model, sources, targets):
    """The verifier's encoder output for ``open``, and its states behind every position."""
    previous = pad_to([[EOS] + t for t in targets], left=False)
    net_input = make_sample(sources)["net_input"]
    like = model.decoder.output_projection.weight.detach()
    return model.encoder.read(**net_input, prev_output_tokens=previous, like=like)[:2]
