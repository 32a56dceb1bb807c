"""transformers on a fairseq checkpoint: rewritten here, run by ``peer_worker``."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, Dict, List

import torch

from ..compat.checkpoints import load_checkpoint
from .transformers_weights import check_same, represent
from .usage import peak

BEAMS = (5, 1)
TITLE = "transformers"
LOOKED_UP = 10  # tokens taken from the output itself, the default of its documentation


def _engine() -> Any:
    """The package.

    It imports torchaudio where that is installed, and ends with it where that was built for another
    torch; text needs none.
    """
    try:
        importlib.import_module("torchaudio")
    except (ImportError, OSError):
        sys.modules["torchaudio"] = None  # type: ignore[assignment]  # as if not installed
    return importlib.import_module("transformers")


def version() -> str:
    """Of the engine, which is imported."""
    return str(_engine().__version__)


def kinds(fp16: bool) -> List[str]:
    """The number formats measured; each gets a process of its own."""
    return ["float16" if fp16 else "float32"]


def rows(kind: str) -> Dict[str, Dict[str, Any]]:
    """The rows of a format: settings of ``Engine.decode`` by name.

    Prompt lookup drafts from what the decoder has read, which is the output alone for models with
    an encoder. Assisted generation needs a smaller model of the same kind, which nobody named.
    """
    found: Dict[str, Dict[str, Any]] = {
        f"{TITLE} {kind} beam {beam}": {"beam": beam} for beam in BEAMS
    }
    found[f"{TITLE} {kind} prompt lookup"] = {"beam": 1, "looked_up": LOOKED_UP}
    return found


def convert(workload: Any, path: str, folder: str) -> None:
    """Write class, configuration and weights under ``folder``.

    Raises:
        ValueError: no class computes what the checkpoint does.
    """
    (model,) = workload.models((path,))
    words = workload.task.target_dictionary
    found = represent(model, words.pad(), words.eos())
    torch.save(found._asdict(), os.path.join(folder, "model.pt"))


def _built(folder: str) -> Any:
    """The model, its weights checked one by one."""
    transformers = _engine()
    saved = load_checkpoint(os.path.join(folder, "model.pt"))
    kind = getattr(transformers, saved["kind"])
    model = kind(kind.config_class(**saved["config"]))
    model.load_state_dict(saved["weights"], strict=False)
    wrong = check_same(model.state_dict(), saved["weights"])
    if wrong:
        raise ValueError(f"{saved['kind']} of transformers {version()} lays out {wrong[:3]} apart")
    return model.eval()


class Engine:
    """The engine in a worker; arguments as for ``peer_ctranslate2.Engine``."""

    def __init__(
        self, folder: str, kind: str, cuda: bool, threads: int, generation: Dict[str, Any]
    ) -> None:
        torch.set_num_threads(threads)
        self.generation = generation
        self.cuda = cuda
        model = _built(folder)
        model = model.half() if kind == "float16" else model
        self.model = model.cuda() if cuda else model
        self.pad: int = model.config.pad_token_id
        self.eos: int = model.config.eos_token_id
        self.longest: int = model.config.max_position_embeddings

    def prepare(self, rows: List[List[int]]) -> Dict[str, Any]:
        """Token ids and mask, padded to the right, where these classes count positions from."""
        width = max(map(len, rows))
        tokens = torch.full((len(rows), width), self.pad)
        for place, row in zip(tokens, rows):
            place[: len(row)] = torch.tensor(row)
        tokens = tokens.cuda() if self.cuda else tokens
        return {"input_ids": tokens, "attention_mask": (tokens != self.pad).long()}

    def synchronise(self) -> None:
        """Wait for the GPU."""
        if self.cuda:
            torch.cuda.synchronize()

    def _settings(self, limit: int, beam: int, looked_up: int) -> Any:
        flags = self.generation
        more: Dict[str, Any] = {}
        if beam > 1:
            # As fairseq: done when there are as many whole hypotheses as the beam is wide.
            more.update(early_stopping=True, length_penalty=float(flags.get("lenpen", 1)))
        if looked_up:
            more["prompt_lookup_num_tokens"] = looked_up
        if flags.get("min_len", 1) > 1:
            more["min_new_tokens"] = flags["min_len"]
        if flags.get("no_repeat_ngram_size", 0):
            more["no_repeat_ngram_size"] = flags["no_repeat_ngram_size"]
        return _engine().GenerationConfig(
            max_new_tokens=min(limit, self.longest - 1),
            num_beams=beam,
            do_sample=False,
            use_cache=True,
            pad_token_id=self.pad,
            eos_token_id=self.eos,
            decoder_start_token_id=self.eos,
            **more,
        )

    def decode(self, batch: Dict[str, Any], limit: int, beam: int, looked_up: int = 0) -> List[Any]:
        """Its own results, one tensor a call; prompt lookup takes one sentence a call."""
        settings = self._settings(limit, beam, looked_up)
        if not looked_up:
            return [self.model.generate(**batch, generation_config=settings)]
        found = []
        for tokens, mask in zip(batch["input_ids"], batch["attention_mask"]):
            one = {"input_ids": tokens[mask.bool()].unsqueeze(0)}
            one["attention_mask"] = torch.ones_like(one["input_ids"])
            found.append(self.model.generate(**one, generation_config=settings))
        return found

    def tokens(self, found: List[Any]) -> List[List[int]]:
        """Token ids, </s> at the end, without the one that the decoder starts from."""
        outputs = []
        for row in (row[1:] for rows in found for row in rows.tolist()):
            end = row.index(self.eos) if self.eos in row else len(row)
            outputs.append([*row[:end], self.eos])
        return outputs

    def peak(self) -> int:
        """Bytes of memory used at most."""
        return peak(self.cuda)
