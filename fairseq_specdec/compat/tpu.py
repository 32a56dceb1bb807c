"""bf16 on machines that have no TPU."""

import sys
from typing import Any

from .patch import wrap_once


def bf16_without_tpu() -> None:
    """Let ``--bf16`` mean the number format, not a TPU.

    Fault: ``options.parse_args_and_arch`` sets ``tpu`` whenever ``--bf16`` is given, so
    ``fairseq-train --bf16`` dies on every machine without torch_xla: "'NoneType' object has no
    attribute 'xla_device'". Versions: all; fairseq-hydra-train is sound.

    Fixed where torch_xla is absent, unless ``--tpu`` was asked for, which still fails as it must.
    """
    from fairseq import options, utils

    if getattr(utils, "xm", None) is None:
        wrap_once(options, "parse_args_and_arch", "bf16_without_tpu", _parse_args_and_arch)


def _parse_args_and_arch(
    original: Any, parser: Any, input_args: Any = None, *args: Any, **kwargs: Any
) -> Any:
    result = original(parser, input_args, *args, **kwargs)
    parsed = result[0] if isinstance(result, tuple) else result  # (args, extra) with parse_known
    given = sys.argv[1:] if input_args is None else input_args
    if getattr(parsed, "bf16", False) and "--tpu" not in given:
        parsed.tpu = False
    return result
