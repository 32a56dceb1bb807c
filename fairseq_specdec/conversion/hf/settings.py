"""config.json and generation_config.json: every setting is read, harmless, or refused by name."""

from collections.abc import Iterable
from typing import Any

from fairseq_specdec.errors import UsageError

# Of training, of naming, of how transformers runs: greedy decoding gives the same with any.
_IDLE = frozenset(
    """
    _name_or_path _num_labels _commit_hash _attn_implementation attn_implementation architectures
    attention_dropout activation_dropout dropout classif_dropout classifier_dropout
    encoder_layerdrop decoder_layerdrop init_std initializer_range gradient_checkpointing
    id2label label2id num_labels problem_type finetuning_task task_specific_params
    transformers_version torch_dtype dtype tokenizer_class use_cache output_past num_hidden_layers
    output_attentions output_hidden_states return_dict torchscript use_bfloat16 tf_legacy_loss
    chunk_size_feed_forward cross_attention_hidden_size add_cross_attention is_decoder
    tie_encoder_decoder prefix sep_token_id tokens_per_sample save_step max_pos router_bias
    """.split()
)
UNSET = object()


class Settings:
    """The settings of a JSON file. ``take`` reads one; ``refuse_rest`` names an unread one."""

    def __init__(self, values: dict[str, Any], path: str, reader: str) -> None:
        self.values = values
        self.path = path
        self.reader = reader
        self._left = set(values) - _IDLE

    def take(self, name: str, default: Any = UNSET, kind: Any = None) -> Any:
        """A setting. ``default``: where it is missing or null; without one it must be there.
        ``kind``: type or types that it must be of."""
        self._left.discard(name)
        value = self.values.get(name)
        if value is None:
            if default is UNSET:
                raise UsageError(self.path, f"lacks {name}, which {self.reader} needs")
            return default
        wrong = kind is not None and not isinstance(value, kind)
        if wrong or (isinstance(value, bool) and kind in (int, (int, float))):
            raise UsageError(self.path, f"{name} is {value!r}, no {_words(kind)}")
        return value

    def count(self, name: str, default: Any = UNSET, most: int = 1 << 24) -> int:
        """A whole number from 1 to ``most``."""
        value = self.take(name, default, int)
        if not 1 <= value <= most:
            raise UsageError(self.path, f"{name} is {value}", f"it must be from 1 to {most}")
        return int(value)

    def expect(self, name: str, values: Iterable[Any], remedy: str) -> None:
        """Refuse a setting that is there and is none of these values."""
        self._left.discard(name)
        value = self.values.get(name)
        if value is not None and value not in list(values):
            raise UsageError(self.path, f"{name} is {value!r}", remedy)

    def leave(self, names: Iterable[str]) -> None:
        """Do without these."""
        self._left.difference_update(names)

    def refuse_rest(self) -> None:
        """Raise ValueError for a setting that nobody knows, unless it is off."""
        for name in sorted(self._left):
            if self.values[name] not in (None, False, [], {}, ""):
                raise UsageError(
                    self.path,
                    f"{name} is {self.values[name]!r}, which {self.reader} does not know",
                    "the model would decode differently",
                )


def _words(kind: Any) -> str:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return " or ".join(each.__name__ for each in kinds)
