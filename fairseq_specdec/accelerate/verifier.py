"""The verifier: what a drafter for it must look like, or why none will pay."""

from collections.abc import Sequence
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
        raise UsageError(
            "--path",
            f"{path} holds a decoder without an encoder (a language model)",
            "drafters of this kind read an encoder's output. Use --strategy iad or sps for it",
        )
    layers = any(name.startswith("decoder.layers.") for name in weights)
    if not layers or "encoder.embed_tokens.weight" not in weights:
        raise UsageError(
            "--path",
            f"{path} holds no Transformer for text",
            "only those of fairseq's TransformerModel can be accelerated",
        )
    return state


def check_layers(path: str, fitting: Fitting) -> None:
    """Refuse verifiers whose decoder is as cheap as a drafter's."""
    if fitting.layers < LEAST_LAYERS:
        raise UsageError(
            "--path",
            f"{path} has {fitting.layers} decoder layers",
            "drafting with 2 layers would cost as much as verifying, and no drafter pays. "
            "Use --strategy greedy or iad",
        )


def fit(path: str, src_dict: Any, tgt_dict: Any, languages: bool = False) -> Fitting:
    """The drafter for a verifier.

    A verifier as wide in its encoder as in its decoder gets an attached drafter of 2 layers with a
    chain, which reads its states; any other gets the papers' drafter, 12+2 layers. ``languages``:
    of a verifier with language tokens, whose vocabulary is large: the drafter reads its tables.
    """
    model = load_verifier("--path", path, src_dict, tgt_dict)
    check_verifier(model, f"--path: {path}")
    cfg = TransformerConfig.from_namespace(model.encoder.cfg)
    attached = cfg.encoder.embed_dim == cfg.decoder.embed_dim
    layers = len(model.decoder.layers)
    words = [*_shared(cfg), *_side("decoder", cfg.decoder)]
    if attached:
        words += _side("encoder", cfg.encoder)[:2]
        words += ["--attach-to", path, "--init-decoder-from", path, "--soft-targets", "0.5"]
        words += ["--init-decoder-layers", f"0,{layers - 1}"]
        words += ["--chain-width", str(min(512, cfg.decoder.embed_dim))]
        words += ["--verifier-embeddings"] if languages else []
        description = "2 layers that read the verifier's states, with a chain"
        return Fitting("attached_drafter_base", words, description, layers)
    words += [*_side("encoder", cfg.decoder), "--source-copy"]
    return Fitting("spec_drafter_base", words, "a model of its own, 12+2 layers", layers)


def _plain(value: Any) -> str:
    return str(getattr(value, "value", value))


def _switches(cfg: Any, names: Sequence[str]) -> list[str]:
    return ["--" + name.replace("_", "-") for name in names if getattr(cfg, name)]


def _shared(cfg: Any) -> list[str]:
    """Flags of settings that both sides share."""
    numbers: dict[str, Any] = {
        "--activation-fn": _plain(cfg.activation_fn),
        "--max-source-positions": cfg.max_source_positions,
        "--max-target-positions": cfg.max_target_positions,
    }
    names = ("layernorm_embedding", "no_scale_embedding", "no_token_positional_embeddings")
    words = [str(word) for pair in numbers.items() for word in pair] + _switches(cfg, names)
    if cfg.share_all_embeddings:
        return [*words, "--share-all-embeddings"]
    return words + _switches(cfg, ("share_decoder_input_output_embed",))


def _side(side: str, cfg: Any) -> list[str]:
    """Flags of the encoder or the decoder."""
    words = [f"--{side}-embed-dim", str(cfg.embed_dim)]
    words += [f"--{side}-ffn-embed-dim", str(cfg.ffn_embed_dim)]
    words += [f"--{side}-attention-heads", str(cfg.attention_heads)]
    return words + [f"--{side}-{name}" for name, on in (
        ("normalize-before", cfg.normalize_before), ("learned-pos", cfg.learned_pos),
    ) if on]  # fmt: skip
