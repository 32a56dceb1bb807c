"""What ``generate`` does under a folder's settings, as decoding flags of fairseq."""

from typing import Any, NamedTuple

from fairseq_specdec.errors import UsageError

from .folder import ModelFolder, Settings

# They belong to sampling, to several answers, to how transformers computes, or are settled above.
_IDLE = (
    "assistant_confidence_threshold assistant_early_exit assistant_lookbehind cache_config "
    "cache_implementation compile_config continuous_batching_config custom_generate "
    "disable_compile dola_layers do_sample epsilon_cutoff "
    "eta_cutoff is_assistant is_encoder_decoder low_memory max_matching_ngram_size min_p "
    "num_assistant_tokens num_assistant_tokens_schedule num_return_sequences "
    "output_attentions output_hidden_states output_logits output_scores prefill_chunk_size "
    "prompt_lookup_num_tokens remove_invalid_values renormalize_logits return_dict_in_generate "
    "return_legacy_cache target_lookbehind temperature token_healing top_h top_k top_p "
    "transformers_version typical_p use_cache use_model_defaults _from_model_config "
    "bos_token_id early_stopping force_bos_token_to_be_generated"
).split()
# Read below; from config.json where there is no generation_config.json.
_READ = (
    "max_length max_new_tokens min_length min_new_tokens no_repeat_ngram_size length_penalty "
    "num_beams num_beam_groups repetition_penalty encoder_repetition_penalty bad_words_ids "
    "forced_bos_token_id forced_eos_token_id decoder_start_token_id eos_token_id pad_token_id"
).split()
SETTINGS = (*_READ, *_IDLE)
USUAL_LENGTH = 20  # transformers' own limit where a folder has none


class Generation(NamedTuple):
    """How transformers decodes a model with one beam."""

    start: int  # token id of the decoder's first input
    eos: int  # token id of the end
    forced_first: int | None  # token id of the first output, or None
    flags: dict[str, Any]  # fairseq's max_len_b, min_len, no_repeat_ngram_size, lenpen
    beam: int


def read_generation(folder: ModelFolder, config: Settings) -> Generation:
    """The settings of generation_config.json, or of config.json where there is none."""
    name, own = "generation_config.json", config.values
    here = folder.has(name)
    there = folder.json(name) if here else {k: own.get(k) for k in SETTINGS}
    for each in ("decoder_start_token_id", "eos_token_id", "pad_token_id"):
        there[each] = own.get(each) if there.get(each) is None else there[each]
    if there["decoder_start_token_id"] is None:
        there["decoder_start_token_id"] = own.get("bos_token_id")
    path = f"{folder.path}/{name if here else 'config.json'}"
    settings = Settings(there, path, "fairseq", _IDLE)
    for each in ("num_beam_groups", "repetition_penalty", "encoder_repetition_penalty"):
        settings.expect(each, [1], "decoding here has no such rule; remove it to do without")
    start, eos = (settings.take(f"{each}_token_id", kind=int) for each in ("decoder_start", "eos"))
    pad, end = (settings.take(f"{each}_token_id", None) for each in ("pad", "forced_eos"))
    settings.expect("forced_eos_token_id", [eos, [eos]], "only eos_token_id can be forced")
    settings.expect("bad_words_ids", [[], [[pad]]], "only pad_token_id can be suppressed")
    first = settings.take("forced_bos_token_id", None, int)
    if first is None and own.get("force_bos_token_to_be_generated"):
        first = own.get("bos_token_id")
    # transformers counts the start symbol, and the forced end where there is one; fairseq adds one.
    most = settings.take("max_length", USUAL_LENGTH, int) - 1
    most = settings.take("max_new_tokens", most, int) - (end is not None)
    if most < 1:
        raise UsageError(
            path, f"max_length {settings.values.get('max_length')} leaves no room for a token"
        )
    least, new = (settings.take(f"min_{each}", 0, int) for each in ("length", "new_tokens"))
    size = settings.take("no_repeat_ngram_size", 0, int)
    if size == 1 and start != eos:
        problem = "no_repeat_ngram_size 1 would forbid the end, since fairseq begins with </s>"
        raise UsageError(path, problem, "use 2 or more")
    flags = {
        "max_len_b": most,
        "min_len": max(0, least - 1, new),
        "no_repeat_ngram_size": size,
        "lenpen": float(settings.take("length_penalty", 1.0, (int, float))),
    }
    beam = settings.count("num_beams", 1, 1000)
    settings.refuse_rest()
    return Generation(start, eos, first, flags, beam)
