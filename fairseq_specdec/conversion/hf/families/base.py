"""What the families have in common: layers by the same names, and how to add a family."""

from __future__ import annotations

from typing import Any, Callable, ClassVar, Dict, List, Mapping, NamedTuple, Optional, Tuple, Type

import torch
from torch import Tensor

from ..folder import ModelFolder
from ..generation import SETTINGS, Generation, read_generation
from ..settings import Settings
from ..vocabulary import Vocabulary
from ..weights import Weights

# config.json's activation to fairseq's; the second is the tanh approximation.
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_accurate",
    "silu": "swish",
    "swish": "swish",
    "tanh": "tanh",
}
# Logit bias of a word that is never generated. In fp16 it is finite, and its probability 0.
NEVER = -1e4
BOS, PAD, EOS, UNK = range(4)  # of every fairseq dictionary


class Text(NamedTuple):
    """How text becomes the model's input."""

    kind: str  # ``sentencepiece``, ``gpt2`` or ``tokenizers``
    files: Dict[str, str]  # of the folder, that OUT gets: name there to name in the folder
    source: List[str]  # tokens of a source by turns: ``{lang}`` its language, ``{text}`` the text
    start: str  # first decoder input, ``</s>`` or ``{lang}``
    task: str  # of fairseq
    language_token: str = "__{}__"  # of ``--source-lang``, as the family's task of fairseq names it
    task_settings: Mapping[str, Any] = {}  # of it, beside the languages
    made: Mapping[str, str] = {}  # files that OUT gets beside those of the folder: their content

    @property
    def of_fairseq(self) -> bool:
        """Whether a task of fairseq makes such sources."""
        return self.source != ["{text}", "</s>", "{lang}"] or self.start == "{lang}"

    @property
    def byte_level(self) -> bool:
        """Whether fairseq's own byte-level BPE reads it."""
        return "vocab.bpe" in self.files or "vocab.bpe" in self.made


class Converted(NamedTuple):
    """A model as fairseq knows it."""

    model_type: str  # of config.json
    arch: str
    model: Dict[str, Any]
    weights: Dict[str, Tensor]
    vocabularies: Tuple[Vocabulary, Vocabulary]  # source and target; one object where they are one
    # for each the ids by fairseq's index; -1 for a word that the model lacks
    orders: Tuple[List[int], List[int]]
    generation: Generation  # how it is decoded
    text: Text  # how text is read


LOADERS: Dict[str, Type[Loader]] = {}


def register(model_type: str) -> Callable[[Type[Loader]], Type[Loader]]:
    """Let a loader read the folders whose config.json has this ``model_type``."""

    def add(loader: Type[Loader]) -> Type[Loader]:
        LOADERS[model_type] = loader
        loader.model_type = model_type
        return loader

    return add


class Loader:
    """Reads one family. Subclasses define in class attributes and methods where they differ.

    Attributes:
        pre_norm: layers normalise their input, and each stack its output.
        learned_positions: the files hold tables of positions.
        normed_embeddings: embeddings are normalised.
        expected: settings that transformers ignores, to the only value that the loader knows.
    """

    model_type: ClassVar[str]
    pre_norm: ClassVar[bool] = False
    learned_positions: ClassVar[bool] = True
    normed_embeddings: ClassVar[bool] = True
    expected: ClassVar[Dict[str, Any]] = {}

    def __init__(self, folder: ModelFolder) -> None:
        self.folder = folder
        path = f"{folder.path}/config.json"
        self.config = Settings(folder.json("config.json"), path, f"the loader of {self.model_type}")
        self.weights = Weights(folder)
        self.out: Dict[str, Tensor] = {}

    def load(self) -> Converted:
        """The model. Raises ValueError: a file is missing, damaged or hostile, or a setting or
        weight is of a kind that the loader does not know; by name."""
        config = self.config
        config.leave(["model_type", *SETTINGS])
        for name, value in self.expected.items():
            config.expect(name, [value], "transformers ignores it, and so does no other reader")
        generation = read_generation(self.folder, config)
        self.words = self.vocabulary_sizes()
        text, vocabularies = self.text(generation)
        orders = self.orders(vocabularies, generation)
        model = self.architecture()
        self._layers(model)
        self._embeddings(model, orders)
        self._positions(model)
        arch = self._output_bias(orders, generation)
        if text.start == "</s>":
            self._start(model, orders, generation)
        config.refuse_rest()
        self.weights.refuse_rest()
        return Converted(
            self.model_type, arch, model, self.out, vocabularies, orders, generation, text
        )

    def text(self, generation: Generation) -> Tuple[Text, Tuple[Vocabulary, Vocabulary]]:
        """How text is read, and the vocabularies of source and target."""
        raise NotImplementedError

    def vocabulary_sizes(self) -> Tuple[int, int]:
        """Of the source and the target."""
        size = self.config.count("vocab_size")
        return size, size

    def architecture(self) -> Dict[str, Any]:
        """Settings of fairseq's Transformer."""
        take = self.config
        name = take.take("activation_function", "gelu", str)
        if name not in ACTIVATIONS:
            raise ValueError(
                f"{take.path}: activation_function is {name!r}; fairseq has "
                f"{', '.join(ACTIVATIONS)}"
            )
        width = take.count("d_model", most=1 << 16)
        positions = take.count("max_position_embeddings", 1024)
        settings = {
            "activation_fn": ACTIVATIONS[name],
            "dropout": 0.0,
            "attention_dropout": 0.0,
            "activation_dropout": 0.0,
            "no_scale_embedding": not take.take("scale_embedding", False, bool),
            "layernorm_embedding": self.normed_embeddings,
            "max_source_positions": positions,
            "max_target_positions": positions,
        }
        for side in ("encoder", "decoder"):
            settings[f"{side}_embed_dim"] = width
            settings[f"{side}_layers"] = take.count(f"{side}_layers", most=1000)
            settings[f"{side}_attention_heads"] = take.count(f"{side}_attention_heads", most=width)
            settings[f"{side}_ffn_embed_dim"] = take.count(f"{side}_ffn_dim")
            settings[f"{side}_normalize_before"] = self.pre_norm
            settings[f"{side}_learned_pos"] = self.learned_positions
        return settings

    def orders(
        self, vocabularies: Tuple[Vocabulary, Vocabulary], generation: Generation
    ) -> Tuple[List[int], List[int]]:
        """For source and target the model's ids by fairseq's index."""
        orders = []
        for size, vocabulary in zip(self.words, vocabularies):
            ids = vocabulary.ids()
            first = [ids.get(token, -1) for token in ("<s>", "<pad>", "</s>", "<unk>")]
            first[EOS] = generation.eos
            for token, i in zip(("<pad>", "<unk>"), (first[PAD], first[UNK])):
                if not 0 <= i < size:
                    raise ValueError(f"{self.folder.path}: its tokenizer has no {token}")
            rest = [i for i in range(size) if i not in first]
            orders.append(first + rest)
        return orders[0], orders[1]

    def _layers(self, model: Dict[str, Any]) -> None:
        """Layers and norms, which have the names of fairseq's."""
        width = model["encoder_embed_dim"]
        for side in ("encoder", "decoder"):
            inner = model[f"{side}_ffn_embed_dim"]
            attentions = ["self_attn"] + (["encoder_attn"] if side == "decoder" else [])
            for i in range(model[f"{side}_layers"]):
                layer = f"{side}.layers.{i}"
                for attention in attentions:
                    for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                        self._linear(f"{layer}.{attention}.{part}", width, width)
                    self._norm(f"{layer}.{attention}_layer_norm", width)
                self._linear(f"{layer}.fc1", inner, width)
                self._linear(f"{layer}.fc2", width, inner)
                self._norm(f"{layer}.final_layer_norm", width)
            if self.pre_norm:
                self._norm(f"{side}.layer_norm", width)
            if self.normed_embeddings:
                self._norm(f"{side}.layernorm_embedding", width)
            self.out[f"{side}.version"] = torch.tensor([3.0])

    def _linear(self, name: str, rows: int, columns: int) -> None:
        self.out[f"{name}.weight"] = self.weights.take(f"model.{name}.weight", [rows, columns])
        self.out[f"{name}.bias"] = self.weights.take(f"model.{name}.bias", [rows])

    def _norm(self, name: str, width: int) -> None:
        for part in ("weight", "bias"):
            self.out[f"{name}.{part}"] = self.weights.take(f"model.{name}.{part}", [width])

    def _embeddings(self, model: Dict[str, Any], orders: Tuple[List[int], List[int]]) -> None:
        """The three tables of words, one tensor where they are one."""
        tied = self.config.take("tie_word_embeddings", True, bool)
        width = model["encoder_embed_dim"]
        source, target = self._table("encoder", width), self._table("decoder", width)
        product = target
        if not tied:
            product = self.weights.take("lm_head.weight", [self.words[1], width])
        self.weights.leave("lm_head.weight")
        ordered: Dict[Tuple[int, int], Tensor] = {}

        def placed(table: Tensor, side: int) -> Tensor:
            key = (table.data_ptr(), id(orders[side]) if orders[0] != orders[1] else 0)
            if key not in ordered:
                ordered[key] = by_order(table, orders[side])
            return ordered[key]

        self.out["encoder.embed_tokens.weight"] = first = placed(source, 0)
        self.out["decoder.embed_tokens.weight"] = second = placed(target, 1)
        self.out["decoder.output_projection.weight"] = third = placed(product, 1)
        model["share_decoder_input_output_embed"] = third is second
        model["share_all_embeddings"] = third is second is first

    def _table(self, side: str, width: int) -> Tensor:
        size = self.words[side == "decoder"]
        own, shared = f"model.{side}.embed_tokens.weight", "model.shared.weight"
        if own not in self.weights:
            return self.weights.take(shared, [size, width])
        table = self.weights.take(own, [size, width])
        if shared in self.weights:
            common = self.weights.take(shared, [size, width])
            if not torch.equal(table, common):
                raise ValueError(
                    f"{self.folder.path}: {own} differs from {shared}, which transformers ties"
                )
            return common
        return table

    def _positions(self, model: Dict[str, Any]) -> None:
        """Tables of positions; fairseq's begin after the index of padding."""
        for side in ("encoder", "decoder"):
            name = f"{side}.embed_positions.weight"
            if self.learned_positions:
                self.out[name] = self.position_table(f"model.{name}", model)
            else:
                self.weights.leave(f"model.{name}")
                self.weights.leave(f"model.{name}s")

    def position_table(self, name: str, model: Dict[str, Any]) -> Tensor:
        """[positions + 2, C] of one side; transformers' begins at 2 too."""
        rows = model["max_source_positions"] + PAD + 1
        return self.weights.take(name, [rows, model["encoder_embed_dim"]])

    def _output_bias(self, orders: Tuple[List[int], List[int]], generation: Generation) -> str:
        """Add the bias of the output where there is one; returns ``--arch``."""
        name, size = "final_logits_bias", self.words[1]
        bias = torch.zeros(size)
        if name in self.weights:
            bias = self.weights.take(name, [1, size])[0].clone()
        for i in generation.suppressed:
            if not 0 <= i < size:
                raise ValueError(f"{self.folder.path}: suppresses the token {i}, and has {size}")
            bias[i] = NEVER
        order = torch.tensor(orders[1])
        placed = bias[order.clamp(min=0)].float()
        placed[order < 0] = NEVER
        if not placed.any() and self.out_is_fairseqs():
            return "transformer"
        self.out["decoder.output_projection.bias"] = placed
        return "marian_transformer"

    def out_is_fairseqs(self) -> bool:
        """Whether ``--arch transformer`` does where the output has no bias."""
        return True

    def _start(
        self, model: Dict[str, Any], orders: Tuple[List[int], List[int]], generation: Generation
    ) -> None:
        """Let the decoder start with </s>, as fairseq's does, where the model has another symbol:
        the first position's embedding takes up the difference."""
        start = generation.start
        if start == generation.eos:
            return
        table = self.out["decoder.embed_tokens.weight"]
        if not 0 <= start < len(orders[1]) or start not in orders[1]:
            raise ValueError(f"{self.config.path}: decoder_start_token_id is {start}, no token")
        if not self.learned_positions:
            raise ValueError(
                f"{self.config.path}: decoder_start_token_id is {start}; the loader of "
                f"{self.model_type} knows {generation.eos} only"
            )
        scale = 1.0 if model["no_scale_embedding"] else float(model["decoder_embed_dim"]) ** 0.5
        positions = self.out["decoder.embed_positions.weight"].float().clone()
        between = table[orders[1].index(start)].float() - table[EOS].float()
        positions[PAD + 1] += scale * between
        self.out["decoder.embed_positions.weight"] = positions


def by_order(table: Tensor, order: List[int]) -> Tensor:
    """[V', C], the rows of a table [V, C] by an order of V' ids; padding's where it is -1."""
    if order == list(range(table.size(0))):
        return table
    index = torch.tensor(order)
    rows = table[index.clamp(min=0)]
    rows[index < 0] = table[order[PAD]]
    return rows


def table_or_none(weights: Weights, name: str, shape: List[int]) -> Optional[Tensor]:
    """A tensor that may be missing."""
    return weights.take(name, shape) if name in weights else None
