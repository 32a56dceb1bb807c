"""The files of a model folder: only those in it, JSON that is what it should be, tensors."""

import json
import os
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from fairseq_specdec.checkpoints.reading import load_pickle
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.contents import check_content

# As transformers looks for them.
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
UNSET = object()
# Of training, of naming, of how transformers runs, or of its former versions: its greedy decoding
# gives the same with any.
IDLE = frozenset(
    """
    _name_or_path _num_labels _commit_hash _attn_implementation attn_implementation architectures
    attention_dropout activation_dropout dropout classif_dropout classifier_dropout
    encoder_layerdrop decoder_layerdrop init_std initializer_range gradient_checkpointing
    id2label label2id num_labels problem_type finetuning_task task_specific_params
    transformers_version torch_dtype dtype tokenizer_class use_cache output_past num_hidden_layers
    output_attentions output_hidden_states return_dict torchscript use_bfloat16 tf_legacy_loss
    chunk_size_feed_forward cross_attention_hidden_size add_cross_attention is_decoder
    tie_encoder_decoder prefix sep_token_id tokens_per_sample save_step max_pos router_bias
    normalize_before normalize_embedding add_final_layer_norm add_bias_logits
    static_position_embeddings extra_pos_embeddings
    """.split()
)


class ModelFolder:
    """A folder as transformers saves it, or a snapshot in its cache. No code of it is run."""

    def __init__(self, path: str) -> None:
        if not os.path.isdir(path):
            raise UsageError(path, "no such folder", "name one with config.json in it")
        self.path = path
        # Links may lead into it. transformers' cache keeps a snapshot's files beside it, as
        # models--NAME/snapshots/COMMIT/FILE -> models--NAME/blobs/DIGEST.
        self._inside = os.path.realpath(path)
        above, snapshots = os.path.split(os.path.dirname(self._inside))
        if snapshots == "snapshots" and os.path.basename(above).startswith("models--"):
            self._inside = above
        if not self.has("config.json"):
            raise UsageError(path, "no config.json in it", "name a model folder of transformers")

    def has(self, name: str) -> bool:
        return os.path.lexists(os.path.join(self.path, name))

    def file(self, name: str) -> str:
        """The path of a file. Raises UsageError: it is not in the folder, or no regular file."""
        if not name or os.path.basename(name) != name or name in (".", ".."):
            raise UsageError(self.path, f"names the file {name!r}, outside of the folder")
        path = os.path.join(self.path, name)
        if not os.path.lexists(path):
            raise UsageError(path, "no such file", "copy the whole folder, its tokenizer too")
        real = os.path.realpath(path)
        if os.path.commonpath([real, self._inside]) != self._inside:
            raise UsageError(path, f"is a link to {real}, outside of the folder")
        if not os.path.isfile(real):
            raise UsageError(path, "is no regular file", "copy the whole folder")
        check_content(path, "a file of a model")
        return path

    def json(self, name: str) -> dict[str, Any]:
        """The object in a JSON file; {} where there is no such file."""
        if not self.has(name):
            return {}
        path = self.file(name)
        try:
            with open(path, encoding="utf-8") as stream:
                content = json.load(stream)
        except (ValueError, RecursionError) as error:
            problem = f"is no JSON file ({str(error)[:100]})"
            raise UsageError(path, problem, "copy it again") from error
        if not isinstance(content, dict):
            raise UsageError(path, f"holds a {type(content).__name__}, no object", "copy it again")
        return content

    def weights(self) -> dict[str, Tensor]:
        """The tensors by their names: of safetensors or pickles, whole or in several files."""
        weights: dict[str, Tensor] = {}
        for path in map(self.file, self._weight_files()):
            read: Any = _safetensors(path) if path.endswith(".safetensors") else load_pickle(path)
            if not isinstance(read, dict) or not all(isinstance(v, Tensor) for v in read.values()):
                raise UsageError(path, "holds something else than weights by their names")
            weights.update(read)
        for name, tensor in weights.items():
            if tensor.dtype not in FLOATS:
                problem = f"{name} is of {tensor.dtype}"
                raise UsageError(self.path, problem, "convert the model before it was quantized")
        return weights

    def _weight_files(self) -> list[str]:
        for name in WEIGHTS:
            if self.has(name):
                return [name]
            index = name + ".index.json"
            if self.has(index):
                placed = self.json(index).get("weight_map")
                if not isinstance(placed, dict) or not placed:
                    raise UsageError(f"{self.path}/{index}", "has no weight_map", "copy it again")
                return sorted({str(each) for each in placed.values()})
        raise UsageError(self.path, f"no weights in it ({', '.join(WEIGHTS)}, whole or in parts)")


def _safetensors(path: str) -> Any:
    try:
        from safetensors.torch import load_file
    except ImportError as error:
        remedy = "pip install 'fairseq-specdec[hf]'"
        raise UsageError(path, "reading it needs safetensors", remedy) from error
    try:
        return load_file(path)
    except Exception as error:  # safetensors has its own, and lets torch's pass
        problem = f"is damaged ({str(error)[:200]})"
        raise UsageError(path, problem, "copy it again") from error


class Settings:
    """The settings of a JSON file: ``take`` reads one, ``refuse_rest`` names an unread one that is
    not among ``idle``."""

    def __init__(self, values: dict[str, Any], path: str, reader: str, idle: Any) -> None:
        self.values, self.path, self.reader = values, path, reader
        self._left = set(values) - IDLE - set(idle)

    def take(self, name: str, default: Any = UNSET, kind: Any = object) -> Any:
        """A setting. ``default``: where it is missing or null; without one it must be there.
        ``kind``: type or types that it must be of."""
        self._left.discard(name)
        value = self.values.get(name)
        if value is None:
            if default is UNSET:
                raise UsageError(self.path, f"lacks {name}, which {self.reader} needs")
            return default
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and int in kinds):
            words = " or ".join(each.__name__ for each in kinds)
            raise UsageError(self.path, f"{name} is {value!r}, no {words}")
        return value

    def count(self, name: str, default: Any = UNSET, most: int = 1 << 24) -> int:
        """A whole number from 1 to ``most``."""
        value = self.take(name, default, int)
        if not 1 <= value <= most:
            raise UsageError(self.path, f"{name} is {value}", f"it must be from 1 to {most}")
        return int(value)

    def expect(self, name: str, values: Iterable[Any], remedy: str) -> None:
        """Refuse a setting that is there and is none of these values."""
        value = self.take(name, None)
        if value is not None and value not in list(values):
            raise UsageError(self.path, f"{name} is {value!r}", remedy)

    def refuse_rest(self) -> None:
        """Raise UsageError for a setting that nobody read, unless it is off."""
        for name in sorted(self._left):
            if self.values[name] not in (None, False, [], {}, ""):
                problem = f"{name} is {self.values[name]!r}, which {self.reader} does not know"
                raise UsageError(self.path, problem, "the model would decode differently")
