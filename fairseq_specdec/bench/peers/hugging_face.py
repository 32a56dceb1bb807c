"""A fairseq Transformer as a model of transformers, with the same output."""

import os
from typing import Any

from fairseq_specdec.checkpoints.reading import load_checkpoint
from fairseq_specdec.errors import UsageError

# Settings, by fairseq's name, that the classes below assume.
_SAME = {
    "share_all_embeddings": True, "encoder_learned_pos": False, "decoder_learned_pos": False,
    "layernorm_embedding": False, "no_token_positional_embeddings": False,
    "no_cross_attention": False, "cross_self_attention": False, "adaptive_softmax_cutoff": None,
}  # fmt: skip


def convert(checkpoint: str, words: int, folder: str) -> None:
    """Write a fairseq checkpoint as a folder of transformers.

    Pre-norm Transformers become M2M-100, whose positions and layers are fairseq's. Post-norm ones
    become Marian, with fairseq's table of positions in place of its own.
    """
    os.environ["HF_HUB_OFFLINE"] = "1"
    state = load_checkpoint(checkpoint)
    args, weights = vars(state["args"]), state["model"]
    for name, value in _SAME.items():
        if (args.get(name) or None) != (value or None):
            raise ValueError(f"{name}={args.get(name)} has no counterpart in transformers")
    pre_norm = bool(args.get("decoder_normalize_before"))
    if pre_norm != bool(args.get("encoder_normalize_before")):
        raise ValueError("an encoder and decoder of which one is pre-norm")
    model = (_pre_norm if pre_norm else _post_norm)(_settings(args, words))
    table = weights.get("encoder.embed_tokens.weight", weights.get("decoder.embed_tokens.weight"))
    tensors = {f"model.{name}": value for name, value in weights.items() if ".layer" in name}
    if pre_norm:  # the final norms, which Marian has not
        tensors = {
            name: v for name, v in tensors.items() if "layer_norm" in name or ".layers." in name
        }
    for name in ("model.shared", "model.encoder.embed_tokens", "model.decoder.embed_tokens"):
        tensors[f"{name}.weight"] = table
    tensors["lm_head.weight"] = table
    missing, unknown = model.load_state_dict(
        {name: value.float() for name, value in tensors.items()}, strict=False
    )
    left = [
        name for name in missing if "embed_positions" not in name and "final_logits" not in name
    ]
    if left or unknown:
        raise UsageError("weights without a counterpart", (left + list(unknown))[:3])
    model.save_pretrained(folder)


def _settings(args: dict[str, Any], words: int) -> dict[str, Any]:
    """The settings that both classes have."""
    return dict(
        vocab_size=words, d_model=args["decoder_embed_dim"],
        encoder_layers=args["encoder_layers"], decoder_layers=args["decoder_layers"],
        encoder_ffn_dim=args["encoder_ffn_embed_dim"],
        decoder_ffn_dim=args["decoder_ffn_embed_dim"],
        encoder_attention_heads=args["encoder_attention_heads"],
        decoder_attention_heads=args["decoder_attention_heads"],
        activation_function=args.get("activation_fn", "relu"), max_position_embeddings=1024,
        scale_embedding=not args.get("no_scale_embedding"), dropout=0.0, attention_dropout=0.0,
        activation_dropout=0.0, encoder_layerdrop=0.0, decoder_layerdrop=0.0,
        bos_token_id=0, pad_token_id=1, eos_token_id=2, decoder_start_token_id=2,
        forced_eos_token_id=None, tie_word_embeddings=True,
    )  # fmt: skip


def _pre_norm(settings: dict[str, Any]) -> Any:
    from transformers import M2M100Config, M2M100ForConditionalGeneration

    return M2M100ForConditionalGeneration(M2M100Config(**settings)).eval()


def _post_norm(settings: dict[str, Any]) -> Any:
    from fairseq.modules import SinusoidalPositionalEmbedding
    from transformers import MarianConfig, MarianMTModel

    words = settings["vocab_size"]
    config = MarianConfig(
        decoder_vocab_size=words, share_encoder_decoder_embeddings=True, **settings
    )
    model = MarianMTModel(config).eval()
    table = SinusoidalPositionalEmbedding.get_embedding(1026, settings["d_model"], 1)
    for side in (model.model.encoder, model.model.decoder):
        side.embed_positions.weight.data.copy_(table[2:])  # fairseq counts from pad + 1
    model._keys_to_ignore_on_save = None  # or the table would not be saved
    return model


def dictionary_size(data: str, language: str) -> int:
    """Symbols of ``dict.<language>.txt`` in a folder of fairseq-preprocess."""
    from fairseq.data import Dictionary

    return len(Dictionary.load(os.path.join(data, f"dict.{language}.txt")))
