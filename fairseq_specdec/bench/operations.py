"""What a decoding computed and read: Kim et al. 2023, section 7.5.1 and Figure 8."""

from typing import Any, Dict, Optional

from torch import nn

from fairseq_specdec.decoding.strategies import STRATEGIES

from .timing import System


def step_weights(decoder: Any) -> int:
    """Weights that a step of a Transformer's decoder multiplies a token by: those of its layers but
    for keys and values of the source, which are made once a sentence, and the vocabulary's."""
    once = {
        id(product)
        for layer in decoder.layers
        for product in (layer.encoder_attn.k_proj, layer.encoder_attn.v_proj)
    }
    products = [part for layer in decoder.layers for part in layer.modules()]
    count = sum(
        part.weight.numel()
        for part in products
        if isinstance(part, nn.Linear) and id(part) not in once
    )
    return count + int(decoder.output_projection.weight.numel())


def operations(system: System, strategy: str) -> Dict[str, Optional[float]]:
    """Millions, a sentence, of the decoders of verifier and small model.

    Returns:
        ``multiply_adds_m``, each weight with each token; ``weights_read_m``, each weight once a
        pass. None for what is not greedy decoding or drafting token by token, one sentence at a
        time.
    """
    stats, sentences = system.stats, len(system.tokens)
    counted = strategy == "greedy" or STRATEGIES[strategy].falls_back
    alone = all(len(batch) == 1 for batch in system.sentences)
    figures: Dict[str, Optional[float]] = dict.fromkeys(("multiply_adds_m", "weights_read_m"))
    if stats is None or not (counted and alone):
        return figures
    verifying = sum(step_weights(model.decoder) for model in system.models)
    drafting = stats.draft_steps
    if drafting:
        drafting *= step_weights(system.generator.drafter.model.decoder)
    decoded = 1e6 * len(system.times[0]) * sentences
    figures["multiply_adds_m"] = (verifying * stats.scored + drafting) / decoded
    figures["weights_read_m"] = (verifying * stats.iterations + drafting) / decoded
    return figures
