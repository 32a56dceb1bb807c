"""Users' mistakes in fairseq's own commands: one line instead of a traceback."""

from __future__ import annotations

import argparse
import os
import sys
from types import TracebackType
from typing import Any

from fairseq_specdec.errors import UsageError

COMMANDS = (
    "fairseq-generate", "fairseq-interactive", "fairseq-train", "fairseq-validate",
    "fairseq-preprocess", "fairseq-hydra-train", "fairseq-score",
)  # fmt: skip
DECODING = COMMANDS[:2]
HYDRA = "fairseq-hydra-train"


def fairseq_command() -> str | None:
    """The name of the fairseq command that this process is, as ``fairseq-generate``. Returns None
    in any other program."""
    main = sys.modules.get("__main__")
    module = getattr(getattr(main, "__spec__", None), "name", "")
    package, _, name = module.partition(".")
    if package != "fairseq_cli":  # run by its file
        folder, file = os.path.split(str(getattr(main, "__file__", None) or ""))
        package, name = os.path.basename(folder), file.removesuffix(".py")
    if package == "fairseq_cli":
        name = "fairseq-" + name.replace("_", "-")
    return name if name in COMMANDS else None


def install() -> None:
    """In a fairseq command, print a ``UsageError`` as one line; other errors keep their traceback.
    Nothing happens in any other program."""
    program = fairseq_command()
    if program is None or getattr(sys.excepthook, "of_specdec", False):
        return
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not isinstance(error, UsageError):
            before(kind, error, trace)
            return
        rank = f" (rank {os.environ['RANK']})" if "RANK" in os.environ else ""
        mistake = error.original.reworded(hydra_field) if program == HYDRA else error.original
        sys.stderr.write(f"{program}{rank}: error: {mistake}\n")

    hook.of_specdec = True  # type: ignore[attr-defined]
    sys.excepthook = hook
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # else hydra prints a traceback of its own


def hydra_field(name: str) -> str | None:
    """A flag as fairseq-hydra-train's YAML names it: ``model.block_size``; None for what is no
    setting there."""
    from fairseq.dataclass.configs import FairseqConfig
    from fairseq.models import MODEL_REGISTRY
    from fairseq.registry import REGISTRIES
    from fairseq.tasks import TASK_DATACLASS_REGISTRY

    if name in ("arch", "task", "criterion"):
        return f"{name.replace('arch', 'model')}._name"
    criterions = REGISTRIES["criterion"]["dataclass_registry"].values()
    sections: list[tuple[str, Any]] = [
        ("task", TASK_DATACLASS_REGISTRY.get("translation_specdec")),
        *(("criterion", one) for one in criterions),
        *((each.name, each.type) for each in FairseqConfig.__dataclass_fields__.values()),
    ]
    for section, config in sections:
        if name in getattr(config, "__dataclass_fields__", {}):
            return f"{section}.{name}"
    for model in ("spec_drafter", "attached_drafter", "blockwise_transformer"):
        parser = argparse.ArgumentParser(add_help=False)
        if model in MODEL_REGISTRY:
            MODEL_REGISTRY[model].add_args(parser)
        if any(action.dest == name for action in parser._actions):
            return f"model.{name}"
    return None
