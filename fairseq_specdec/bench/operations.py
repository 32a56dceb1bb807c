"""What a decoding computed and read: Kim et al. 2023, section 7.5.1 and Figure 8."""

from typing import Any

from torch import nn

from fairseq_specdec.decoding.strategies import STRATEGIES

from .timing import System


def step_weights(decoder: Any) -> int | None:
    """Weights that a step of a Transformer's decoder multiplies a token by: those of its layers but
    for keys and values of the source, which are made once a sentence, and the vocabulary's. None
    for an adaptive softmax, which does not multiply by all of them."""
    if decoder.output_projection is None:
        return None
    once, products = set(), [decoder.output_projection]
    for layer in decoder.layers:
        if layer.encoder_attn is not None:
            once |= {layer.encoder_attn.k_proj, layer.encoder_attn.v_proj}
        products += [part for part in layer.modules() if isinstance(part, nn.Linear)]
    # not of their weights, which would be unpacked
    return sum(part.in_features * part.out_features for part in products if part not in once)


def operations(system: System, strategy: str) -> dict[str, float | None]:
    """Millions, a sentence, of the decoders of verifier and small model.

    Returns:
        ``multiply_adds_m``, each weight with each token; ``weights_read_m``, each weight once a
        pass. None for what is not greedy decoding or drafting token by token, one sentence at a
        time.
    """
    stats, sentences = system.stats, len(system.tokens)
    counted = strategy == "greedy" or STRATEGIES[strategy].falls_back
    alone = all(len(batch) == 1 for batch in system.sentences)
    figures: dict[str, float | None] = dict.fromkeys(("multiply_adds_m", "weights_read_m"))
    if stats is None or not (counted and alone):
        return figures
    decoders = [model.decoder for model in system.models]
    if stats.draft_steps:
        decoders.append(system.generator.drafter.model.decoder)
    weights = [step_weights(decoder) for decoder in decoders]
    if None in weights:
        return figures
    drafting = stats.draft_steps * weights.pop() if stats.draft_steps else 0
    verifying = sum(weights)
    decoded = 1e6 * len(system.times[0]) * sentences
    figures["multiply_adds_m"] = (verifying * stats.scored + drafting) / decoded
    figures["weights_read_m"] = (verifying * stats.iterations + drafting) / decoded
    return figures
