"""CTranslate2 on a fairseq checkpoint: converted here, run by ``peer_worker``."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from typing import Any, Dict, List

import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary

from .peer_process import environment
from .resident import peak_resident

BEAMS = (5, 1)
TITLE = "CTranslate2"

# In a process of its own: the engine's library shall not be loaded beside what is measured.
# fairseq_specdec lets torch load what fairseq saved.
CONVERT = (
    "import sys, fairseq_specdec; from ctranslate2.converters import FairseqConverter\n"
    "FairseqConverter(*sys.argv[1:5]).convert(sys.argv[5])"
)


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


def _reason(traceback: str) -> str:
    """What was raised, which stands behind the last line of code."""
    return " ".join(re.split(r"\n  .*\n", traceback)[-1].split())[:300]


def convert(workload: Any, path: str, folder: str) -> None:
    """Write the converted model and the dictionaries under ``folder``.

    Raises:
        ValueError: the converter's last word, for what it does not know.
    """
    cfg = workload.task.cfg
    copy = _legible(path, folder)
    data = cfg.data.split(os.pathsep)[0]
    words = [copy, data, cfg.source_lang, cfg.target_lang, os.path.join(folder, "model")]
    done = subprocess.run(
        [sys.executable, "-c", CONVERT, *words], capture_output=True, text=True, env=environment()
    )
    os.remove(copy)
    if done.returncode != 0:
        raise ValueError(_reason(done.stderr))
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
        self.generation = generation
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
        flags = self.generation
        found: List[Any] = self.translator.translate_batch(
            batch,
            beam_size=beam,
            length_penalty=flags.get("lenpen", 1),
            max_input_length=0,
            max_decoding_length=limit,
            min_decoding_length=flags.get("min_len", 1),
            no_repeat_ngram_size=flags.get("no_repeat_ngram_size", 0),
        )
        return found

    def tokens(self, found: List[Any]) -> List[List[int]]:
        """Token ids, </s> at the end."""
        eos = self.target.eos()
        return [[*map(self.target.index, one.hypotheses[0]), eos] for one in found]

    def peak(self) -> Any:
        """Bytes of memory used at most; the engine does not tell of a GPU's."""
        return None if self.cuda else peak_resident()
