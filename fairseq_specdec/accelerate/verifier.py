"""The verifier: what a drafter for it must look like, or why none will pay."""

from typing import Any, NamedTuple

from fairseq.models.transformer import TransformerConfig

from fairseq_specdec.errors import UsageError

from ..checkpoints.content import read_state
from ..decoding.builder import check_verifier
from ..training.initialisation import load_verifier

# A verification of a verifier with fewer decoder layers costs no more than drafting.
LEAST_LAYERS = 3


class Fitting(NamedTuple):
    """A drafter that fits a verifier."""

    arch: str  # of the drafter
    flags: list[str]  # its shape, as flags of fairseq-train
    description: str  # in words, for the report
    layers: int = LEAST_LAYERS  # of the verifier's decoder


def check_checkpoint(path: str) -> dict[str, Any]:
    """Refuse, with the reason, checkpoints for which no drafter pays; before data are read. Returns
    the content of others."""
    state = read_state("--path", path)
    weights = state["model"]
    if "decoder.mask_embedding" in weights:
        raise UsageError("--path", f"{path} is a drafter", "name the model that it is to speed up")
    if not any(name.startswith("encoder.") for name in weights):
        problem = f"{path} holds a decoder without an encoder (a language model)"
        remedy = "drafters of this kind read an encoder's output. Use --strategy iad or sps for it"
        raise UsageError("--path", problem, remedy)
    layers = any(name.startswith("decoder.layers.") for name in weights)
    if not layers or "encoder.embed_tokens.weight" not in weights:
        remedy = "only those of fairseq's TransformerModel can be accelerated"
        raise UsageError("--path", f"{path} holds no Transformer for text", remedy)
    return state


def check_layers(path: str, fitting: Fitting) -> None:
    """Refuse verifiers whose decoder is as cheap as a drafter's."""
    if fitting.layers < LEAST_LAYERS:
        remedy = "drafting with 2 layers would cost as much as verifying, and no drafter pays. "
        remedy += "Use --strategy greedy or iad"
        raise UsageError("--path", f"{path} has {fitting.layers} decoder layers", remedy)


def fit(path: str, src_dict: Any, tgt_dict: Any, languages: bool = False) -> Fitting:
    """The drafter for a verifier.

    A verifier as wide in its encoder as in its decoder gets an attached drafter of 2 layers with a
    chain, which reads its states; any other gets the papers' drafter, 12+2 layers. ``languages``:
    of a verifier with language tokens, whose vocabulary is large: the drafter reads its tables.
    """
    model = load_verifier("--path", path, src_dict, tgt_dict)
    check_verifier(model, f"--path: {path}")
    cfg = TransformerConfig.from_namespace(model.encoder.cfg)
    layers = len(model.decoder.layers)
    words = [
        "--activation-fn", str(getattr(cfg.activation_fn, "value", cfg.activation_fn)),
        "--max-source-positions", str(cfg.max_source_positions),
        "--max-target-positions", str(cfg.max_target_positions),
        *_switches(cfg, "layernorm_embedding no_scale_embedding no_token_positional_embeddings"),
        *_switches(cfg, "share_all_embeddings" if cfg.share_all_embeddings
                   else "share_decoder_input_output_embed"), *_side("decoder", cfg.decoder),
    ]  # fmt: skip
    if cfg.encoder.embed_dim == cfg.decoder.embed_dim:
        words += _side("encoder", cfg.encoder)[:2]
        words += ["--attach-to", path, "--init-decoder-from", path, "--soft-targets", "0.5"]
        words += ["--init-decoder-layers", f"0,{layers - 1}"]
        words += ["--chain-width", str(min(512, cfg.decoder.embed_dim))]
        words += ["--verifier-embeddings"] if languages else []
        description = "2 layers that read the verifier's states, with a chain"
        return Fitting("attached_drafter_base", words, description, layers)
    words += [*_side("encoder", cfg.decoder), "--source-copy"]
    return Fitting("spec_drafter_base", words, "a model of its own, 12+2 layers", layers)


def _switches(cfg: Any, names: str, prefix: str = "--") -> list[str]:
    return [prefix + name.replace("_", "-") for name in names.split() if getattr(cfg, name)]


def _side(side: str, cfg: Any) -> list[str]:
    """Flags of the encoder or the decoder."""
    names = ("embed_dim", "ffn_embed_dim", "attention_heads")
    words = [[f"--{side}-{name.replace('_', '-')}", str(getattr(cfg, name))] for name in names]
    return [*sum(words, []), *_switches(cfg, "normalize_before learned_pos", f"--{side}-")]
