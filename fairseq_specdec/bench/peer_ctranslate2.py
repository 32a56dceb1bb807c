"""CTranslate2 on a fairseq checkpoint: converted here, run by ``peer_worker``."""

from __future__ import annotations

import argparse
import os
from typing import Any, Dict, List

import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary

from .child import call_once
from .usage import peak_resident

BEAMS = (5, 1)
TITLE = "CTranslate2"


def version() -> str:
    """Of the engine, which is imported."""
    import ctranslate2

    return str(ctranslate2.__version__)


def kinds(fp16: bool) -> List[str]:
    """The number formats measured; each gets a process of its own."""
    return ["float16", "int8_float16"] if fp16 else ["float32", "int8"]


def rows(kind: str) -> Dict[str, Dict[str, Any]]:
    """The rows of a format: settings of ``Engine.decode`` by name."""
    return {f"{TITLE} {kind} beam {beam}": {"beam": beam} for beam in BEAMS}


def _legible(path: str, folder: str) -> str:
    """A copy of a checkpoint's weights and settings, as fairseq 0.9 laid them out.

    The converter asks for the name of the task, and for the settings as a Namespace; neither is in
    every checkpoint.
    """
    state = checkpoint_utils.load_checkpoint_to_cpu(path)
    settings = state.get("args") or state["cfg"]["model"]
    given = dict(vars(settings) if isinstance(settings, argparse.Namespace) else settings)
    given.update(task="translation", arch=given.get("arch") or given["_name"])
    copy = os.path.join(folder, "checkpoint.pt")
    torch.save({"args": argparse.Namespace(**given), "model": state["model"]}, copy)
    return copy


def write_model(checkpoint: str, data: str, source: str, target: str, folder: str) -> None:
    """Convert a checkpoint; called in a process of its own, as it imports the engine."""
    from ctranslate2.converters import FairseqConverter

    FairseqConverter(checkpoint, data, source, target).convert(folder)


def convert(workload: Any, path: str, folder: str) -> None:
    """Write the converted model and the dictionaries under ``folder``.

    Raises:
        BenchError: the converter's last word, for what it does not know.
    """
    cfg = workload.task.cfg
    copy = _legible(path, folder)
    call_once(
        "the converter",
        f"{__name__}:write_model",
        checkpoint=copy,
        data=cfg.data.split(os.pathsep)[0],
        source=cfg.source_lang,
        target=cfg.target_lang,
        folder=os.path.join(folder, "model"),
    )
    os.remove(copy)
    workload.task.source_dictionary.save(os.path.join(folder, "source.txt"))
    workload.task.target_dictionary.save(os.path.join(folder, "target.txt"))


class Engine:
    """The engine in a worker.

    Args:
        folder: from ``convert``.
        kind: number format.
        cuda: use the GPU.
        threads: of the CPU.
        generation: fairseq's generation flags by field name.
    """

    def __init__(
        self, folder: str, kind: str, cuda: bool, threads: int, generation: Dict[str, Any]
    ) -> None:
        import ctranslate2

        self.source, self.target = (
            Dictionary.load(os.path.join(folder, f"{side}.txt")) for side in ("source", "target")
        )
        flags = generation
        self.settings = {
            "length_penalty": flags.get("lenpen", 1),
            "max_input_length": 0,
            "min_decoding_length": flags.get("min_len", 1),
            "no_repeat_ngram_size": flags.get("no_repeat_ngram_size", 0),
        }
        self.cuda = cuda
        self.translator = ctranslate2.Translator(
            os.path.join(folder, "model"),
            device="cuda" if cuda else "cpu",
            compute_type=kind,
            inter_threads=1,
            intra_threads=threads,
        )

    def prepare(self, rows: List[List[int]]) -> List[List[str]]:
        """The engine takes words, and adds </s> itself."""
        eos = self.source.eos()
        return [[self.source[t] for t in row if t != eos] for row in rows]

    def synchronise(self) -> None:
        """``translate_batch`` comes back when all is done."""

    def decode(self, batch: List[List[str]], limit: int, beam: int) -> List[Any]:
        """Its own results, one a sentence, of ``limit`` tokens at most."""
        return list(
            self.translator.translate_batch(
                batch, beam_size=beam, max_decoding_length=limit, **self.settings
            )
        )

    def tokens(self, found: List[Any]) -> List[List[int]]:
        """Token ids, </s> at the end."""
        eos = self.target.eos()
        return [[*map(self.target.index, one.hypotheses[0]), eos] for one in found]

    def peak(self) -> Any:
        """Bytes of memory used at most; the engine does not tell of a GPU's."""
        return None if self.cuda else peak_resident()
