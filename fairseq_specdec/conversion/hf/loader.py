"""What the families have in common: settings, dictionaries, weights of nearly fairseq's names."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from fairseq.models import build_model
from torch import Tensor

import fairseq_specdec.tasks  # noqa: F401  (the plugin)
from fairseq_specdec.checkpoints.verifier import Dictionaries, placeholders
from fairseq_specdec.errors import UsageError

from .folder import ModelFolder, Settings
from .generation import SETTINGS, read_generation
from .vocabulary import Vocabulary

# config.json's activation to fairseq's; the second is the tanh approximation.
ACTIVATIONS = {
    "relu": "relu", "gelu": "gelu", "gelu_new": "gelu_accurate", "silu": "swish", "swish": "swish",
    "tanh": "tanh",
}  # fmt: skip
# Logit bias of a word that is never generated. In fp16 it is finite, and its probability 0.
NEVER = -1e4
PAD, EOS = 1, 2  # of every fairseq dictionary


class Text(NamedTuple):
    """How text becomes the model's input."""

    kind: str  # ``sentencepiece``, ``gpt2`` or ``tokenizers``
    files: dict[str, str]  # of the folder, that OUT gets: name there to name in the folder
    source: list[str]  # tokens of a source by turns: ``{lang}`` its language, ``{text}`` the text
    start: str  # first decoder input, ``</s>`` or ``{lang}``
    task: str  # of fairseq
    language_token: str = "__{}__"  # of ``--source-lang``, as the family's task of fairseq names it
    task_settings: Mapping[str, Any] = {}  # of it, beside the languages

    @property
    def byte_level(self) -> bool:
        """Whether fairseq's own byte-level BPE reads it."""
        return "vocab.bpe" in self.files


class Loader:
    """A folder's model as fairseq has it. Subclasses define in class attributes and methods where
    families differ.

    Raises:
        UsageError: a file is missing, damaged or hostile, or a setting or weight is of a kind that
            the loader does not know; by name.

    Attributes:
        arch, model: ``--arch`` and the settings of fairseq's model.
        out: its weights.
        vocabularies: of source and target; one object where they are one.
        orders: for each the ids by fairseq's index; -1 for a word that the model lacks.
        generation: how it is decoded.
        text: how text is read.
        pre_norm: layers normalise their input, and each stack its output.
        learned_positions: the files hold tables of positions.
        normed_embeddings: embeddings are normalised.
    """

    pre_norm: ClassVar[bool] = False
    learned_positions: ClassVar[bool] = True
    normed_embeddings: ClassVar[bool] = True

    def __init__(self, folder: ModelFolder) -> None:
        self.folder = folder
        path, values = f"{folder.path}/config.json", folder.json("config.json")
        reader, idle = f"the loader of {values['model_type']}", ("model_type", *SETTINGS)
        self.config = Settings(values, path, reader, idle)
        self.weights = folder.weights()  # those that are not in ``out`` yet
        self.out: dict[str, Tensor] = {}
        self.generation = read_generation(folder, self.config)
        self.sizes = self.vocabulary_sizes()
        self.text, self.vocabularies = self.read_text()
        for name in self.text.files.values():
            folder.file(name)
        self.orders = self._order(0), self._order(1)
        self.model = self.architecture()
        self._embeddings()
        for name in ("encoder.embed_positions.weight", "decoder.embed_positions.weight"):
            if self.learned_positions:
                self.out[name] = self.position_table(f"model.{name}")
            else:  # of former versions of transformers
                self.weights.pop(f"model.{name}", None)
                self.weights.pop(f"model.{name}s", None)
        self.arch = self._output_bias()
        if self.text.start == "</s>" and self.generation.start != self.generation.eos:
            self._start()
        self.config.refuse_rest()
        self._rest()

    @property
    def language_words(self) -> dict[str, str]:
        """Tokens of languages to the words that they are in fairseq's dictionary."""
        languages, form = self.vocabularies[0].languages, self.text.language_token
        return {token: form.format(code) for code, token in languages.items()}

    def read_text(self) -> tuple[Text, tuple[Vocabulary, Vocabulary]]:
        """How text is read, and the vocabularies of source and target."""
        raise NotImplementedError

    def vocabulary_sizes(self) -> tuple[int, int]:
        """Source and target."""
        size = self.config.count("vocab_size")
        return size, size

    def architecture(self) -> dict[str, Any]:
        """Settings of fairseq's Transformer."""
        config = self.config
        name = config.take("activation_function", "gelu", str)
        if name not in ACTIVATIONS:
            problem = f"activation_function is {name!r}"
            raise UsageError(config.path, problem, f"fairseq has {', '.join(ACTIVATIONS)}")
        width = config.count("d_model", most=1 << 16)
        positions = config.count("max_position_embeddings", 1024)
        settings = {
            **dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), 0.0),
            "activation_fn": ACTIVATIONS[name],
            "no_scale_embedding": not config.take("scale_embedding", False, bool),
            "layernorm_embedding": self.normed_embeddings,
            "max_source_positions": positions,
            "max_target_positions": positions,
        }
        for side in ("encoder", "decoder"):
            heads = config.count(f"{side}_attention_heads", most=width)
            settings[f"{side}_embed_dim"] = width
            settings[f"{side}_layers"] = config.count(f"{side}_layers", most=1000)
            settings[f"{side}_attention_heads"] = heads
            settings[f"{side}_ffn_embed_dim"] = config.count(f"{side}_ffn_dim")
            settings[f"{side}_normalize_before"] = self.pre_norm
            settings[f"{side}_learned_pos"] = self.learned_positions
        return settings

    def _order(self, side: int) -> list[int]:
        """The model's ids by fairseq's index."""
        ids, size = {t: i for i, t in self.vocabularies[side].tokens.items()}, self.sizes[side]
        for token in ("<pad>", "<unk>"):
            if not 0 <= ids.get(token, -1) < size:
                raise UsageError(self.folder.path, f"its tokenizer has no {token}")
        first = [ids.get("<s>", -1), ids["<pad>"], self.generation.eos, ids["<unk>"]]
        return first + [i for i in range(size) if i not in first]

    def take(self, name: str, shape: Sequence[int]) -> Tensor:
        """A tensor of the folder, which is read by this."""
        tensor = self.weights.pop(name, None)
        if tensor is None:
            problem = f"lacks the weight {name}, which config.json requires"
            raise UsageError(self.folder.path, problem)
        if list(tensor.shape) != list(shape):
            problem = f"{name} has shape {list(tensor.shape)}, config.json says {list(shape)}"
            raise UsageError(self.folder.path, problem)
        return tensor

    def _embeddings(self) -> None:
        """The three vocabulary tables, one tensor where they are one."""
        model, width = self.model, self.model["encoder_embed_dim"]
        tied = self.config.take("tie_word_embeddings", True, bool)
        shared, tables = "model.shared.weight", []
        common = self.weights.pop(shared, None)
        for side, size in zip(("encoder", "decoder"), self.sizes):
            name = f"model.{side}.embed_tokens.weight"
            if common is not None and not torch.equal(self.weights.get(name, common), common):
                problem = f"{name} differs from {shared}, which transformers ties"
                raise UsageError(self.folder.path, problem)
            if common is not None:  # one tensor, though the file may hold it several times
                self.weights[name] = common
            tables.append(self.take(name, [size, width]))
        if tied:
            self.weights.pop("lm_head.weight", None)
        tables.append(tables[1] if tied else self.take("lm_head.weight", [self.sizes[1], width]))
        names = ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection")
        placed: dict[tuple[int, ...], Tensor] = {}
        for name, table, order in zip(names, tables, (*self.orders, self.orders[1])):
            key = (table.data_ptr(), *order)
            if key not in placed:
                placed[key] = by_order(table, order)
            self.out[f"{name}.weight"] = placed[key]
        first, second, third = self.out.values()
        model["share_decoder_input_output_embed"] = third is second
        model["share_all_embeddings"] = third is second is first

    def position_table(self, name: str) -> Tensor:
        """[positions + 2, C] of one side: they begin after the index of padding, as fairseq's."""
        rows = self.model["max_source_positions"] + PAD + 1
        return self.take(name, [rows, self.model["encoder_embed_dim"]])

    def _output_bias(self) -> str:
        """Add the bias of the output where there is one; returns ``--arch``."""
        name, size, order = "final_logits_bias", self.sizes[1], torch.tensor(self.orders[1])
        bias = self.take(name, [1, size])[0] if name in self.weights else torch.zeros(size)
        placed = bias.float()[order.clamp(min=0)].masked_fill(order < 0, NEVER)
        if not placed.any():
            return "transformer"
        self.out["decoder.output_projection.bias"] = placed
        return "marian_transformer"

    def _start(self) -> None:
        """Let the decoder start with </s>, as fairseq's does, where the model has another symbol:
        the first position's embedding takes up the difference."""
        start, model, order = self.generation.start, self.model, self.orders[1]
        if start < 0 or start not in order or not self.learned_positions:
            problem = f"decoder_start_token_id is {start}, which {self.config.reader} does not know"
            raise UsageError(self.config.path, problem, f"only {self.generation.eos} is supported")
        table = self.out["decoder.embed_tokens.weight"]
        scale = 1.0 if model["no_scale_embedding"] else float(model["decoder_embed_dim"]) ** 0.5
        positions = self.out["decoder.embed_positions.weight"].float().clone()
        positions[PAD + 1] += scale * (table[order.index(start)].float() - table[EOS].float())
        self.out["decoder.embed_positions.weight"] = positions

    def _rest(self) -> None:
        """Layers and norms, which have the names of fairseq's: just those of its model of these
        settings."""
        self.out.update({f"{side}.version": torch.tensor([3.0]) for side in ("encoder", "decoder")})
        words = Dictionaries(*placeholders(self.out))
        settings = Namespace(_name=self.arch, arch=self.arch, **self.model)
        try:
            with torch.device("meta"):
                built: Any = build_model(settings, words)
        except (AssertionError, ValueError) as error:
            raise UsageError(self.config.path, str(error)[:200]) from error
        wanted = {n: t for n, t in built.state_dict().items() if not n.endswith("_float_tensor")}
        for name, tensor in wanted.items():
            if name not in self.out:
                self.out[name] = self.take(f"model.{name}", tensor.shape)
        if self.weights:
            problem = f"holds {min(self.weights)}, which no part of this family reads"
            raise UsageError(self.folder.path, problem, "it is another model than config.json says")


def by_order(table: Tensor, order: list[int]) -> Tensor:
    """[V', C], the rows of a table [V, C] by an order of V' ids; padding's where it is -1."""
    if order == list(range(table.size(0))):
        return table
    return table[torch.tensor([order[PAD] if i < 0 else i for i in order])]
