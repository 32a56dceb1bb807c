"""Read a drafter's checkpoint; refuse other files."""

from typing import Any

from fairseq.models.speech_to_text import S2TTransformerModel
from fairseq.models.transformer import TransformerModelBase

from fairseq_specdec.checkpoints.content import architecture, read_state, reads_speech
from fairseq_specdec.checkpoints.decoding_memory import only_to_decode
from fairseq_specdec.checkpoints.verifier import Decoding, load_models
from fairseq_specdec.engine.support import STOCK_DECODERS, check_model
from fairseq_specdec.errors import UsageError
from fairseq_specdec.models.block_decoder import BlockDecoder
from fairseq_specdec.models.legacy_drafter import ARCHITECTURES, OWN_ARCHITECTURE
from fairseq_specdec.models.verifier_tables import reads_tables, why_not

from .training_dictionaries import check_symbols

# What a block drafter has and no other model.
MASK = "decoder.mask_embedding"
# All block drafters have it but those in the authors' layout, whose mask is <unk>.
LEGACY = (OWN_ARCHITECTURE, *ARCHITECTURES)
FLAG = "--drafter-path"


def load_drafter(
    path: str | None, src_dict: Any, tgt_dict: Any, state: dict[str, Any] | None = None
) -> Any:
    """Load the checkpoint of a block drafter. Raises ValueError: no path, no such file, unreadable,
    not a drafter, or of other dictionaries."""
    state = read_drafter(path) if state is None else state
    if not _is_block_drafter(state):
        raise UsageError(
            "--drafter-path",
            f"{path} is no block drafter (it has no [MASK] embedding)",
            "were --path and --drafter-path swapped?",
        )
    model = _build(path, state, src_dict, tgt_dict)
    if not isinstance(model.decoder, BlockDecoder):
        raise UsageError("--drafter-path", f"{path} holds a {type(model).__name__}, no drafter")
    return model


@only_to_decode()
def load_small_model(path: str | None, src_dict: Any, tgt_dict: Any) -> Any:
    """Load the checkpoint of a small autoregressive model that drafts token by token."""
    state = read_drafter(path)
    if _is_block_drafter(state):
        raise UsageError(
            "--drafter-path",
            f"{path} is a block drafter, and this strategy drafts with a small autoregressive "
            "TransformerModel",
            "give one, or use --strategy gad",
        )
    model = _build(path, state, src_dict, tgt_dict)
    decoder = getattr(model, "decoder", None)
    known = (TransformerModelBase, S2TTransformerModel)
    if not isinstance(model, known) or type(decoder) not in STOCK_DECODERS:
        raise UsageError(
            "--drafter-path",
            f"{path} holds a {type(model).__name__} with decoder {type(decoder).__name__}",
            "this strategy drafts with fairseq TransformerModel checkpoints only",
        )
    check_model(model, f"--drafter-path: {path}")
    return model


def _given(path: str | None) -> str:
    if not path:
        raise UsageError("--drafter-path", "this strategy needs a drafter", "give its checkpoint")
    return path


def _is_block_drafter(state: Any) -> bool:
    return MASK in state["model"] or architecture(state) in LEGACY


def read_drafter(path: str | None) -> Any:
    """The content of a drafter's checkpoint."""
    return read_state(FLAG, _given(path))


def _build(path: Any, state: Any, src_dict: Any, tgt_dict: Any) -> Any:
    """The model, once its dictionaries are known to be the verifier's."""
    weights = state["model"]
    _check_source(path, weights, src_dict)
    for side, dictionary in (("encoder", src_dict), ("decoder", tgt_dict)):
        table = weights.get(f"{side}.embed_tokens.weight")
        if table is None:  # an attached drafter has no encoder, perhaps its verifier's tables
            continue
        rows = table.size(0)
        if rows != len(dictionary):
            raise UsageError(
                "--drafter-path",
                f"its {side} dictionary has {rows} symbols, the verifier's {len(dictionary)}",
                "train the drafter on the verifier's dict.txt",
            )
    check_symbols(path, state, src_dict, tgt_dict)
    return load_models(FLAG, [path], Decoding(src_dict, tgt_dict), state=state)[0][0]


def _check_source(path: Any, weights: Any, src_dict: Any) -> None:
    """Refuse a drafter that reads words where the source is speech, and the other way round."""
    reads_words = "encoder.embed_tokens.weight" in weights
    if (reads_words and src_dict is None) or (reads_speech(weights) and src_dict is not None):
        reads, source = ("words", "speech") if reads_words else ("speech", "text")
        raise UsageError(
            "--drafter-path",
            f"{path} reads {reads}, and the source of this task is {source}",
            "give a drafter that was trained under the verifier's task",
        )


def check_reading(drafter: Any, verifier: Any, flag: str) -> None:
    """Refuse a verifier that an attached drafter cannot read; any other drafter reads none. Raises
    ValueError: the verifier has too few decoder layers or another width."""
    layers = getattr(drafter.encoder, "read_layers", None)
    if not layers:
        return
    width = drafter.decoder.embed_dim
    words = len(drafter.decoder.dictionary) if reads_tables(drafter) else None
    wrong = why_not(verifier, width, layers[-1], words)
    if wrong:
        raise UsageError(
            flag,
            f"the drafter reads decoder layer {layers[-1]} of a verifier {width} wide, and "
            f"this one {wrong}",
            "use the verifier that the drafter was trained with",
        )
