"""What subclassed tasks hand to ``build_generator`` beside the flags: ``extra_gen_cls_kwargs``."""

from typing import Any, NamedTuple

from fairseq_specdec.errors import UsageError

HONOURED = ("eos", "symbols_to_strip_from_output")
# fairseq-generate always passes both; the weight means nothing without the model.
IGNORED_ALONE = ("lm_weight",)


class Ending(NamedTuple):
    """How an output starts, ends and is shown."""

    eos: int  # token id that ends an output, and the decoder's first input
    hidden: set[int]  # token ids that fairseq's commands do not print; ``eos`` is among them


def stop_symbols(extra: dict[str, Any] | None, tgt_dict: Any) -> Ending:
    """Read ``extra_gen_cls_kwargs`` as stock ``SequenceGenerator`` does."""
    given = extra or {}
    if given.get("lm_model") is not None:
        raise UsageError("--lm-path", "cannot be honoured by speculative decoding")
    for name, value in given.items():
        unused = value is None or value is False or (hasattr(value, "__len__") and not len(value))
        if name not in (*HONOURED, *IGNORED_ALONE) and not unused:
            raise UsageError(
                "extra_gen_cls_kwargs",
                f"{name} cannot be honoured by speculative decoding",
                "leave it out, or decode with --task translation",
            )
    eos = given.get("eos")
    eos = tgt_dict.eos() if eos is None else int(eos)
    return Ending(eos, {eos, *(given.get("symbols_to_strip_from_output") or ())})
