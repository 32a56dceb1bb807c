"""The other engines that ``--peers`` can measure: what each needs and what it cannot do."""

from typing import Any, NamedTuple

# fairseq's generation flags and the values that every engine decodes with.
PLAIN = {"prefix_size": 0, "unkpen": 0, "temperature": 1.0, "unnormalized": False}


class Engine(NamedTuple):
    """An engine."""

    title: str
    # modules that must be installed (``pip install fairseq_specdec[bench-peers]``)
    needs: tuple[str, ...]
    kinds: tuple[str, ...]  # number formats and ways to decode; a process and rows for each
    half_kinds: tuple[str, ...] = ()
    widest: int = 1_000_000
    plain: dict[str, Any] = PLAIN  # flags without a counterpart, and their only value


# By the name that --peers takes, which is also that of the module with its ``Model``.
ENGINES: dict[str, Engine] = {
    "ctranslate2": Engine(
        "CTranslate2", ("ctranslate2",), ("float32", "int8"), ("float16", "int8_float16")
    ),
    "onnxruntime": Engine(
        "ONNX Runtime", ("onnxruntime", "optimum", "transformers"), ("float32", "int8"),
        widest=1, plain={**PLAIN, "no_repeat_ngram_size": 0},
    ),
    "transformers": Engine("transformers", ("transformers",), ("float32",)),
}  # fmt: skip
