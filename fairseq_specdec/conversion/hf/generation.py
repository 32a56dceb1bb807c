"""What ``generate`` does under a folder's settings, as decoding flags of fairseq."""

from typing import Any, NamedTuple

from fairseq_specdec.errors import UsageError

from .folder import ModelFolder, Settings

# With another value than 1 they are refused.
_ONE = ("num_beam_groups", "encoder_repetition_penalty", "repetition_penalty")
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
# Read from config.json where there is no generation_config.json.
_OURS = (
    "max_length max_new_tokens min_length min_new_tokens no_repeat_ngram_size length_penalty "
    "num_beams bad_words_ids suppress_tokens forced_bos_token_id "
    "forced_eos_token_id decoder_start_token_id eos_token_id pad_token_id"
).split()
SETTINGS = (*_OURS, *_ONE, *_IDLE)
USUAL_LENGTH = 20  # transformers' own limit where a folder has none


class Generation(NamedTuple):
    """How transformers decodes a model with one beam."""

    start: int  # token id of the decoder's first input
    eos: int  # token id of the end
    forced_first: int | None  # token id of the first output, or None
    flags: dict[str, Any]  # fairseq's max_len_b, min_len, no_repeat_ngram_size, lenpen
    beam: int
    suppressed: list[int]  # token ids that are never generated


def read_generation(folder: ModelFolder, config: Settings) -> Generation:
    """The settings of generation_config.json, or of config.json where there is none."""
    name = "generation_config.json"
    own = folder.has(name)
    there = folder.json(name) if own else {k: config.values.get(k) for k in SETTINGS}
    path = f"{folder.path}/{name if own else 'config.json'}"
    settings = Settings(there, path, "fairseq", _IDLE)
    for each in _ONE:
        settings.expect(each, [1], "decoding here has no such rule; remove it to do without")
    start, eos, pad = (
        settings.take(f"{each}_token_id", config.values.get(f"{each}_token_id"))
        for each in ("decoder_start", "eos", "pad")
    )
    eos = eos[0] if isinstance(eos, list) and len(eos) == 1 else eos
    start = config.take("bos_token_id", None) if start is None else start
    for what, value in (("eos_token_id", eos), ("decoder_start_token_id", start)):
        if not isinstance(value, int):
            raise UsageError(settings.path, f"{what} is {value!r}", "it must be one token")
    settings.expect("forced_eos_token_id", [eos, [eos]], "only eos_token_id can be forced")
    first = settings.take("forced_bos_token_id", None, int)
    if first is None and config.values.get("force_bos_token_to_be_generated"):
        first = config.values.get("bos_token_id")
    length = _most_tokens(settings)
    least, new = (settings.take(f"min_{each}", 0, int) for each in ("length", "new_tokens"))
    size = settings.take("no_repeat_ngram_size", 0, int)
    if size == 1 and start != eos:
        problem = "no_repeat_ngram_size 1 would forbid the end, since fairseq begins with </s>"
        raise UsageError(settings.path, problem, "use 2 or more")
    flags = {
        "max_len_b": length,
        "min_len": max(0, least - 1, new),  # transformers counts the start symbol in min_length
        "no_repeat_ngram_size": size,
        "lenpen": float(settings.take("length_penalty", 1.0, (int, float))),
    }
    beam, suppressed = settings.count("num_beams", 1, 1000), _suppressed(settings, pad)
    settings.refuse_rest()
    return Generation(start, eos, first, flags, beam, suppressed)


def _most_tokens(settings: Settings) -> int:
    """``--max-len-b``. transformers counts the start symbol, and the forced end where there is one;
    fairseq adds an end."""
    most, new = (settings.take(name, None, int) for name in ("max_length", "max_new_tokens"))
    most = most if new is None else new + 1
    count = (USUAL_LENGTH if most is None else most) - 1
    count -= settings.take("forced_eos_token_id", None) is not None
    if count < 1:
        raise UsageError(settings.path, f"max_length {most} leaves no room for a token")
    return int(count)


def _suppressed(settings: Settings, pad: Any) -> list[int]:
    words = list(settings.take("suppress_tokens", [], list))
    for word in settings.take("bad_words_ids", [], list):
        if not isinstance(word, list) or len(word) != 1:
            problem = f"bad_words_ids holds {word!r}"
            raise UsageError(settings.path, problem, "only single tokens can be suppressed")
        words += word
    if not all(isinstance(word, int) for word in words):
        raise UsageError(settings.path, "suppressed tokens must be whole numbers")
    return sorted(set(words) - {pad})  # fairseq never generates padding
