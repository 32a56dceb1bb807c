"""What ``generate`` does under a folder's settings, as decoding flags of fairseq."""

from typing import Any, NamedTuple

from fairseq_specdec.errors import UsageError

from .folder import ModelFolder
from .settings import Settings

# What each is where it does nothing. With another value it is refused.
_REFUSED: dict[str, Any] = {
    "begin_suppress_tokens": None,
    "constraints": None,
    "diversity_penalty": 0.0,
    "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1.0,
    "exponential_decay_length_penalty": None,
    "force_words_ids": None,
    "forced_decoder_ids": None,
    "guidance_scale": None,
    "max_time": None,
    "num_beam_groups": 1,
    "penalty_alpha": None,
    "repetition_penalty": 1.0,
    "sequence_bias": None,
    "stop_strings": None,
    "watermarking_config": None,
}
# They belong to sampling, to several answers, or to how transformers computes.
_IDLE = (
    "assistant_confidence_threshold assistant_early_exit assistant_lookbehind cache_config "
    "cache_implementation compile_config continuous_batching_config custom_generate "
    "disable_compile dola_layers do_sample epsilon_cutoff "
    "eta_cutoff is_assistant is_encoder_decoder low_memory max_matching_ngram_size min_p "
    "num_assistant_tokens num_assistant_tokens_schedule num_return_sequences "
    "output_attentions output_hidden_states output_logits output_scores prefill_chunk_size "
    "prompt_lookup_num_tokens remove_invalid_values renormalize_logits return_dict_in_generate "
    "return_legacy_cache target_lookbehind temperature token_healing top_h top_k top_p "
    "transformers_version typical_p use_cache use_model_defaults _from_model_config"
).split()
# Read from config.json where there is no generation_config.json.
_OURS = (
    "max_length max_new_tokens min_length min_new_tokens no_repeat_ngram_size length_penalty "
    "early_stopping num_beams bad_words_ids suppress_tokens forced_bos_token_id "
    "forced_eos_token_id decoder_start_token_id bos_token_id eos_token_id pad_token_id "
    "force_bos_token_to_be_generated"
).split()
SETTINGS = (*_OURS, *_REFUSED, *_IDLE)
# transformers' own limit where a folder has none.
USUAL_LENGTH = 20


class Generation(NamedTuple):
    """How transformers decodes a model with one beam."""

    # start, eos: token ids of the decoder's first input and of the end
    start: int
    eos: int
    forced_first: int | None  # token id of the first output, or None
    # max_len_b, min_len, no_repeat_ngram_size, lenpen, beam: fairseq's flags
    max_len_b: int
    min_len: int
    no_repeat_ngram_size: int
    lenpen: float
    beam: int
    suppressed: list[int]  # token ids that are never generated
    length_stated: bool  # whether the folder itself limits the length of an output


def read_generation(folder: ModelFolder, config: Settings) -> Generation:
    """The settings of generation_config.json, or of config.json where there is none."""
    name = "generation_config.json"
    own = folder.has(name)
    there = folder.json(name) if own else {k: config.values.get(k) for k in SETTINGS}
    settings = Settings(there, f"{folder.path}/{name if own else 'config.json'}", "fairseq")
    for each, idle in _REFUSED.items():
        settings.expect(each, [idle], "decoding here has no such rule; remove it to do without")
    settings.leave(_IDLE)
    settings.leave(["bos_token_id", "early_stopping", "force_bos_token_to_be_generated"])
    start = settings.take("decoder_start_token_id", config.values.get("decoder_start_token_id"))
    eos = settings.take("eos_token_id", config.values.get("eos_token_id"))
    eos = eos[0] if isinstance(eos, list) and len(eos) == 1 else eos
    start = config.take("bos_token_id", None) if start is None else start
    for what, value in (("eos_token_id", eos), ("decoder_start_token_id", start)):
        if not isinstance(value, int):
            raise UsageError(settings.path, f"{what} is {value!r}", "it must be one token")
    pad = settings.take("pad_token_id", config.values.get("pad_token_id"))
    forced_end = settings.take("forced_eos_token_id", None)
    settings.expect("forced_eos_token_id", [eos, [eos]], "only eos_token_id can be forced")
    first = settings.take("forced_bos_token_id", None, int)
    if first is None and config.values.get("force_bos_token_to_be_generated"):
        first = config.values.get("bos_token_id")
    length, stated = _most_tokens(settings, forced_end is not None)
    generation = Generation(
        start, eos, first, length, _least_tokens(settings), _ngrams(settings, start, eos),
        float(settings.take("length_penalty", 1.0, (int, float))),
        settings.count("num_beams", 1, 1000), _suppressed(settings, pad), stated,
    )  # fmt: skip
    settings.refuse_rest()
    return generation


def _most_tokens(settings: Settings, forced_end: bool) -> Any:
    """``--max-len-b``, and whether the file has it. transformers counts the start symbol, and the
    forced end where there is one; fairseq adds an end."""
    most = settings.take("max_length", None, int)
    new = settings.take("max_new_tokens", None, int)
    if new is not None:
        most = new + 1
    stated = most is not None
    most = USUAL_LENGTH if most is None else most
    count = most - 2 if forced_end else most - 1
    if count < 1:
        raise UsageError(settings.path, f"max_length {most} leaves no room for a token")
    return count, stated


def _least_tokens(settings: Settings) -> int:
    """``--min-len``; transformers counts the start symbol in min_length."""
    least = settings.take("min_length", 0, int)
    new = settings.take("min_new_tokens", 0, int)
    return max(0, least - 1, new)


def _ngrams(settings: Settings, start: int, eos: int) -> int:
    size = settings.take("no_repeat_ngram_size", 0, int)
    if size == 1 and start != eos:
        raise UsageError(
            settings.path,
            "no_repeat_ngram_size 1 would forbid the end, since fairseq begins with </s>",
            "use 2 or more",
        )
    return int(size)


def _suppressed(settings: Settings, pad: Any) -> list[int]:
    words = list(settings.take("suppress_tokens", [], list))
    for word in settings.take("bad_words_ids", [], list):
        if not isinstance(word, list) or len(word) != 1:
            raise UsageError(
                settings.path,
                f"bad_words_ids holds {word!r}",
                "only single tokens can be suppressed",
            )
        words += word
    if not all(isinstance(word, int) for word in words):
        raise UsageError(settings.path, "suppressed tokens must be whole numbers")
    # fairseq never generates padding.
    return sorted(set(words) - {pad})
