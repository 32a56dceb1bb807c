"""Other engines on the same checkpoint (the extra ``peers``): CTranslate2."""

from __future__ import annotations

import argparse
import importlib.util
import os
import tempfile
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from fairseq import checkpoint_utils
from torch import Tensor

from .systems import Plan
from .timing import System
from .workload import BenchError, Workload

BEAMS = (5, 1)
FLAG = "--peers"


def require(plan: Plan) -> None:
    """Refuse what CTranslate2 cannot be measured with; no model is loaded.

    Args:
        plan: stock decoding of ``--path``.

    Raises:
        BenchError: it is not installed, or a flag has no counterpart there.
    """
    if importlib.util.find_spec("ctranslate2") is None:
        raise BenchError(
            f"{FLAG}: needs ctranslate2; install it with pip install fairseq_specdec[peers], or "
            "leave the flag out"
        )
    if len(plan.paths) > 1:
        raise BenchError(f"{FLAG}: CTranslate2 decodes no ensembles; give one checkpoint to --path")
    unused = {"prefix_size": 0, "unkpen": 0, "temperature": 1.0, "unnormalized": False}
    for name, value in unused.items():
        if plan.generation.get(name, value) != value:
            flag = "--" + name.replace("_", "-")
            raise BenchError(f"{FLAG}: {flag} has no counterpart in CTranslate2; leave one out")


class Peer:
    """CTranslate2 behind the interface of fairseq's generators.

    Args:
        translator: ``ctranslate2.Translator``.
        task: holds the dictionaries.
        beam: width.
        generation: fairseq's generation flags by field name.
        folder: of the converted model; kept as long as this object.
    """

    def __init__(
        self, translator: Any, task: Any, beam: int, generation: Dict[str, Any], folder: Any
    ) -> None:
        self.translator = translator
        self.source, self.target = task.source_dictionary, task.target_dictionary
        self.beam = beam
        self.generation = generation
        self.folder = folder

    def generate(
        self, models: List[Any], sample: Dict[str, Any], prefix_tokens: Optional[Tensor] = None
    ) -> List[List[Dict[str, Any]]]:
        """One hypothesis a sentence, ``tokens`` only; its models are not ``models``.

        The engine takes words; turning numbers into words and back is part of the time.
        """
        rows = sample["net_input"]["src_tokens"]
        hidden = (self.source.pad(), self.source.eos())
        words = [[self.source[t] for t in row if t not in hidden] for row in rows.tolist()]
        flags = self.generation
        limit = flags.get("max_len_a", 0) * rows.size(1) + flags.get("max_len_b", 200)
        found = self.translator.translate_batch(
            words,
            beam_size=self.beam,
            length_penalty=flags.get("lenpen", 1),
            max_input_length=0,
            max_decoding_length=int(limit),
            min_decoding_length=flags.get("min_len", 1),
            no_repeat_ngram_size=flags.get("no_repeat_ngram_size", 0),
        )
        eos = self.target.eos()
        return [
            [{"tokens": torch.tensor([*map(self.target.index, one.hypotheses[0]), eos])}]
            for one in found
        ]


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


def _converted(workload: Workload, path: str) -> Any:
    """A temporary folder with the checkpoint in CTranslate2's format, under ``model``."""
    from ctranslate2.converters import FairseqConverter

    folder = tempfile.TemporaryDirectory(prefix="specdec-bench-")
    cfg = workload.task.cfg
    data = cfg.data.split(os.pathsep)[0]
    try:
        copy = _legible(path, folder.name)
        converter = FairseqConverter(copy, data, cfg.source_lang, cfg.target_lang)
        converter.convert(os.path.join(folder.name, "model"))
        os.remove(copy)
    except Exception as error:  # its own errors, and torch's or fairseq's under it
        folder.cleanup()
        raise BenchError(
            f"{FLAG}: CTranslate2 cannot convert {path} ({type(error).__name__}: "
            f"{str(error)[:300]}); leave the flag out"
        ) from error
    return folder


def makers(plan: Plan, fp16: bool) -> List[Tuple[Plan, Callable[[Workload], System]]]:
    """A (plan, function) for every row, as ``Session.makers`` gives them.

    Args:
        plan: stock decoding of ``--path``.
        fp16: measure the two half-precision formats instead.
    """
    # One conversion for all rows of a workload.
    folders: Dict[int, Any] = {}

    def of(name: str, kind: str, beam: int) -> Callable[[Workload], System]:
        def make(workload: Workload) -> System:
            import ctranslate2

            if id(workload) not in folders:
                folders[id(workload)] = _converted(workload, plan.paths[0])
            folder = folders[id(workload)]
            try:
                translator = ctranslate2.Translator(
                    os.path.join(folder.name, "model"),
                    device="cuda" if workload.cuda else "cpu",
                    compute_type=kind,
                    inter_threads=1,
                    intra_threads=torch.get_num_threads(),
                )
            except (RuntimeError, ValueError) as error:
                raise BenchError(f"{FLAG}: {name}: {error}; leave the flag out") from error
            peer = Peer(translator, workload.task, beam, plan.generation, folder)
            return System(name, peer, ())

        return make

    rows = []
    for kind in ("float16", "int8_float16") if fp16 else ("float32", "int8"):
        for beam in BEAMS:
            name = f"CTranslate2 {kind} beam {beam}"
            rows.append((plan._replace(name=name, base=name), of(name, kind, beam)))
    return rows
