"""Find the files that a name or a path means, and load them."""

import contextlib
import os
from argparse import Namespace
from collections.abc import Sequence
from typing import Any, NamedTuple, Union

import torch
from fairseq.data import data_utils

from fairseq_specdec.checkpoints.content import architecture, read_state, reads_speech
from fairseq_specdec.checkpoints.decoding_memory import only_to_decode
from fairseq_specdec.checkpoints.own_task import OwnTask
from fairseq_specdec.checkpoints.verifier import load_models
from fairseq_specdec.config import TranslationSpecDecConfig
from fairseq_specdec.decoding.strategies import STRATEGIES
from fairseq_specdec.engine.number_formats import COMPUTED, NUMBER_FORMATS
from fairseq_specdec.errors import MissingFileError, UsageError
from fairseq_specdec.io.flag_values import flag_of
from fairseq_specdec.tasks.translation_specdec import TranslationSpecDecTask

Paths = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]

# Demo pairs, and the languages that their tokenizer speaks where the dictionaries' names are none.
DEMOS: dict[str, dict[str, str]] = {
    "demo_ende": {},
    "demo_edit": {"source_lang": "en", "target_lang": "en"},
}
DTYPES = {name: NUMBER_FORMATS[name].dtype for name in COMPUTED}


class Place(NamedTuple):
    """The files that a name means."""

    verifiers: list[str]  # checkpoints, an ensemble if several
    drafter: str | None  # the drafter's checkpoint, or None
    data: str | None  # folder of the dictionaries, or None where the checkpoint must say
    spoken: dict[str, str]  # languages for the tokenizer, where they are known


def find(verifier: Paths, drafter: Any, data: Any, strategy: str | None) -> Place:
    """Resolve a demo pair's name, a folder with ``verifier.pt`` in it, or checkpoints.

    Args:
        verifier, drafter, data: as for ``SpeculativeTranslator.from_pretrained``.
        strategy: a drafter is looked for where it needs one, or where it is None.

    Raises:
        FileNotFoundError: nothing is there; has the remedy.
        TypeError: a verifier that is no path.
    """
    data = None if data is None else os.fspath(data)
    drafter = None if drafter is None else os.fspath(drafter)
    paths = verifier if isinstance(verifier, (list, tuple)) else [verifier]
    if not paths or not all(isinstance(path, (str, os.PathLike)) for path in paths):
        raise TypeError(f"verifier: expected a path, a name or a list of paths, got {verifier!r}")
    if isinstance(verifier, (list, tuple)):
        place = Place([os.fspath(path) for path in verifier], drafter, data, {})
    else:
        place = _find_name(os.fspath(verifier), drafter, data, strategy)  # type: ignore[arg-type]
    for path in place.verifiers:
        if not os.path.isfile(path):
            _name_checkpoint(os.path.dirname(path))
            raise MissingFileError(
                "--path",
                f"no such file: {path}",
                "give a checkpoint, several for an ensemble, a folder with verifier.pt in "
                f"it, or one of {', '.join(DEMOS)}",
            )
    if place.data is not None and not os.path.isdir(place.data):
        raise MissingFileError(
            "--data", f"no such folder: {place.data}", "name the one of the dict.*.txt"
        )
    return place


def _name_checkpoint(folder: str) -> None:
    """Name the checkpoint that fairseq-train left in a folder, to be passed by itself."""
    for name in ("checkpoint_best.pt", "checkpoint_last.pt"):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            raise MissingFileError("--path", f"{folder} has {name}", f"name {path}")


def _find_name(name: str, drafter: str | None, data: str | None, strategy: str | None) -> Place:
    """``find`` for a demo pair's name, a folder, or checkpoints joined by colons; not checked."""
    if name in DEMOS and not os.path.exists(name):
        name = _demo_folder(name)
    spoken = DEMOS.get(os.path.basename(os.path.normpath(name)), {})
    if os.path.isdir(name):
        data = data or name
        beside = os.path.join(name, "drafter.pt")
        known = None if strategy is None else STRATEGIES.get(strategy)
        wanted = strategy is None or (known is not None and known.needs_drafter)
        if drafter is None and wanted and os.path.isfile(beside):
            drafter = beside
        name = os.path.join(name, "verifier.pt")
    # As fairseq's --path; a name with a colon in it is given in a list.
    paths = [name] if os.path.isfile(name) else name.split(os.pathsep)
    return Place(paths, drafter, data, spoken)


def _demo_folder(name: str) -> str:
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    places = [
        os.path.join(root, "data-bin", name) for root in (os.path.dirname(package), os.getcwd())
    ]
    for folder in places:
        if os.path.isfile(os.path.join(folder, "verifier.pt")):
            return folder
    raise MissingFileError(
        name,
        f"not in {', '.join(dict.fromkeys(places))}",
        "the demo pairs come with a checkout of fairseq_specdec, in its data-bin, and not "
        "with a wheel: run this in the checkout's folder, or name the pair's, as "
        f"path/to/data-bin/{name}",
    )


class Loaded(NamedTuple):
    """A verifier in memory. ``saved``: the first checkpoint's configuration, or None. ``arch``: its
    ``--arch``."""

    task: Any
    models: list[Any]
    saved: Any
    arch: str = ""

    @property
    def dictionaries(self) -> tuple[Any, Any]:
        """Of the source and the target language."""
        return self.task.source_dictionary, self.task.target_dictionary


def _dictionaries(data: str | None, first: str, saved_task: Any) -> str:
    """The folder with the dictionaries: as given, beside the checkpoint, or as trained with."""
    trained = str((saved_task or {}).get("data") or "").split(os.pathsep)[0]
    places = [data] if data is not None else [os.path.dirname(os.path.abspath(first)), trained]
    for folder in places:
        if folder and os.path.isdir(folder):
            if any(n.startswith("dict.") and n.endswith(".txt") for n in os.listdir(folder)):
                return folder
    raise MissingFileError(
        "--data",
        f"no dict.*.txt in {' or '.join(p for p in places if p)}",
        "name the folder that fairseq-preprocess wrote",
    )


def _task(config: TranslationSpecDecConfig) -> Any:
    """The task, with its dictionaries."""
    try:
        return TranslationSpecDecTask.setup_task(config)
    except Exception as error:  # fairseq raises bare ones
        reasons = str(error).strip().splitlines() or [type(error).__name__]
        raise UsageError(
            "--data",
            f"the dictionaries dict.{config.source_lang}.txt and dict.{config.target_lang}"
            f".txt in {config.data} cannot be used ({reasons[0]})",
        ) from error


def _languages(
    folder: str, asked: tuple[str | None, str | None], saved_task: Any
) -> tuple[str, str]:
    """Source and target language: as asked for, as trained with, or as the folder's files say."""
    guesses: tuple[str | None, str | None]
    try:
        guesses = data_utils.infer_language_pair(folder)
    except OSError:
        guesses = (None, None)
    names = []
    for argument, given, guess in zip(("source_lang", "target_lang"), asked, guesses):
        name = given or (saved_task or {}).get(argument) or guess
        if not name:
            raise UsageError(flag_of(argument), "the checkpoint does not name it", "name it")
        if not os.path.isfile(os.path.join(folder, f"dict.{name}.txt")):
            raise MissingFileError(
                f"{flag_of(argument)} {name}",
                f"no dict.{name}.txt in {folder}",
                "name another language, or give --data",
            )
        names.append(name)
    return names[0], names[1]


def load(
    paths: list[str],
    data: str | None,
    languages: tuple[str | None, str | None],
    decoding: bool = False,
) -> Loaded:
    """Load a verifier and its dictionaries, to the CPU.

    Args:
        data: folder of the dictionaries; None to look for it.
        languages: source and target, as in the dictionaries' names; None to look for them.
        decoding: the models are used by this project's generators alone.

    Raises:
        FileNotFoundError, ValueError: naming the file or argument.
    """
    with only_to_decode() if decoding else contextlib.nullcontext():
        return _load(paths, data, languages)


def _load(paths: list[str], data: str | None, languages: tuple[str | None, str | None]) -> Loaded:
    state = read_state("--path", paths[0])
    if reads_speech(state["model"]):
        raise UsageError(
            "--path",
            f"{paths[0]} reads speech, and this interface translates text",
            "use fairseq's S2TTransformerModel.from_pretrained with task='speech_to_text_specdec'",
        )
    saved = state.get("cfg")
    saved_task = saved.get("task") if saved is not None else None
    if isinstance(saved_task, Namespace):
        saved_task = vars(saved_task)
    folder = _dictionaries(data, paths[0], saved_task)
    source, target = _languages(folder, languages, saved_task)
    config = TranslationSpecDecConfig(
        data=folder,
        source_lang=source,
        target_lang=target,
        left_pad_source=bool((saved_task or {}).get("left_pad_source", True)),
        # The command line fills these in from other groups of flags.
        dataset_impl="mmap",
        required_seq_len_multiple=1,
        train_subset="train",
    )
    task = _task(config)
    if OwnTask(state).reverses(task):
        raise UsageError(
            f"--source-lang {source}, --target-lang {target}",
            f"{paths[0]} translates in the other direction",
            "exchange them",
        )
    misfit = f", or give --data with its own dictionaries, not {folder}"
    models, _ = load_models("--path", paths[:1], task, misfit, state=state)
    models += load_models("--path", paths[1:], task, misfit)[0]
    for model in models:
        model.eval()
    return Loaded(task, models, saved, architecture(state))


def chosen_device(device: Any) -> torch.device:
    """The device asked for, or the GPU where there is one."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise UsageError(f"--device {device}", str(error).splitlines()[0]) from error
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise UsageError(f"--device {device}", "torch sees no GPU", "leave it out for the CPU")
    return chosen


def chosen_dtype(dtype: Any, device: torch.device) -> torch.dtype:
    """The number format asked for."""
    chosen: Any = DTYPES.get(dtype, dtype) if isinstance(dtype, str) else dtype
    if chosen not in DTYPES.values():
        raise UsageError(f"--dtype {dtype}", f"choose one of {', '.join(DTYPES)}")
    if chosen == torch.float16 and device.type == "cpu":
        raise UsageError(f"--dtype {dtype}", "not on a CPU", "use fp32 or bf16")
    known: torch.dtype = chosen
    return known
