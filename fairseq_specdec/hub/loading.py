"""Find the files that a name or a path means, and load them."""

import contextlib
import glob
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from fairseq.data import Dictionary, data_utils

from fairseq_specdec.checkpoints.content import architecture, read_state, reads_speech
from fairseq_specdec.checkpoints.decoding_memory import only_to_decode
from fairseq_specdec.checkpoints.own_task import OwnTask
from fairseq_specdec.checkpoints.verifier import load_models
from fairseq_specdec.config import TranslationSpecDecConfig
from fairseq_specdec.engine.devices import DTYPES
from fairseq_specdec.errors import MissingFileError, UsageError
from fairseq_specdec.io.flag_values import flag_of
from fairseq_specdec.io.provenance import CHECKOUT
from fairseq_specdec.tasks.translation_specdec import TranslationSpecDecTask

Path = str | os.PathLike[str]
Paths = Path | Sequence[Path]
Languages = tuple[str | None, str | None]
"""Source and target, as the dictionaries are named; None to look for them."""

# Demo pairs, by their folders, and their languages where the dictionaries' names are none.
DEMOS: dict[str, tuple[str, str] | None] = {"demo_ende": None, "demo_edit": ("en", "en")}
# The verifier in a folder, by the names of this project and of fairseq-train.
NAMES = ("verifier.pt", "checkpoint_best.pt", "checkpoint_last.pt")


class Place(NamedTuple):
    """The files that a name means."""

    verifiers: list[str]  # checkpoints, an ensemble if several
    drafter: str | None  # the drafter's checkpoint, or None
    data: str | None  # folder of the dictionaries, or None where the checkpoint must say


def find(verifier: Paths, drafter: Path | None, data: Path | None) -> Place:
    """Resolve a demo pair's name, a folder with ``verifier.pt`` in it, or checkpoints, as for
    ``from_pretrained``; the drafter is the given one, or the one in the folder. Raises
    FileNotFoundError: nothing is there. TypeError: a verifier is no path."""
    chosen = None if drafter is None else os.fspath(drafter)
    folder = None if data is None else os.fspath(data)
    if isinstance(verifier, (list, tuple)):
        paths = list(map(os.fspath, verifier))
    else:
        name = os.fspath(verifier)  # type: ignore[arg-type]
        if name in DEMOS and not os.path.exists(name):
            name = _demo_folder(name)
        if os.path.isdir(name):
            folder, beside = folder or name, os.path.join(name, "drafter.pt")
            chosen = beside if chosen is None and os.path.isfile(beside) else chosen
            named = [os.path.join(name, each) for each in NAMES]
            name = next(filter(os.path.isfile, named), named[0])
        # As fairseq's --path; a name with a colon in it is given in a list.
        paths = [name] if os.path.isfile(name) else name.split(os.pathsep)
    for path in paths or [""]:
        if not os.path.isfile(path):
            remedy = "give a checkpoint, several for an ensemble, a folder with verifier.pt in it, "
            remedy += f"or one of {', '.join(DEMOS)}"
            raise MissingFileError("--path", f"no such file: {path}", remedy)
    if folder is not None and not os.path.isdir(folder):
        remedy = "name the one of the dict.*.txt"
        raise MissingFileError("--data", f"no such folder: {folder}", remedy)
    return Place(paths, chosen, folder)


def _demo_folder(name: str) -> str:
    places = [os.path.join(root, "data-bin", name) for root in (CHECKOUT, os.getcwd())]
    for folder in places:
        if os.path.isfile(os.path.join(folder, "verifier.pt")):
            return folder
    raise MissingFileError(
        name,
        f"not in {', '.join(dict.fromkeys(places))}",
        "the demo pairs come with a checkout of fairseq_specdec, not with a wheel: run this in "
        f"the checkout's folder, or name the pair's, as path/to/data-bin/{name}",
    )


class Loaded(NamedTuple):
    """A verifier in memory. ``saved``: the first checkpoint's configuration, or None. ``arch``: its
    ``--arch``."""

    task: TranslationSpecDecTask
    models: list[Any]
    saved: Any
    arch: str = ""

    @property
    def dictionaries(self) -> tuple[Dictionary, Dictionary]:
        """Codes of the source and the target language."""
        return self.task.source_dictionary, self.task.target_dictionary

    @property
    def device(self) -> torch.device:
        """Where the models are."""
        device: torch.device = next(self.models[0].parameters()).device
        return device


def load(
    paths: list[str], data: str | None, languages: Languages, decoding: bool = False
) -> Loaded:
    """Load a verifier and its dictionaries, to the CPU. ``data``: folder of the dictionaries; None
    to look for it. ``decoding``: the models are used by this project's generators alone. Raises
    FileNotFoundError, ValueError: naming the file or argument."""
    with only_to_decode() if decoding else contextlib.nullcontext():
        state = read_state("--path", paths[0])
        task = task_of(paths[0], state, data, languages)
        models, _ = load_models("--path", paths[:1], task, state=state)
        models += load_models("--path", paths[1:], task)[0]
    for model in models:
        model.eval()
    return Loaded(task, models, state.get("cfg"), architecture(state))


def task_of(
    path: str, state: dict[str, Any], data: str | None, languages: Languages
) -> TranslationSpecDecTask:
    """The task of a checkpoint, with its dictionaries. ``state``: its content."""
    if reads_speech(state["model"]):
        raise UsageError(
            "--path",
            f"{path} reads speech, and this interface translates text",
            "use fairseq's S2TTransformerModel.from_pretrained with task='speech_to_text_specdec'",
        )
    own = OwnTask(state)
    folder = _dictionaries(data, path, own)
    source, target = _languages(folder, languages, own)
    config = TranslationSpecDecConfig(
        data=folder,
        source_lang=source,
        target_lang=target,
        left_pad_source=str(own.get("left_pad_source")) != "False",
        # The command line fills these in from other groups of flags.
        dataset_impl="mmap",
        required_seq_len_multiple=1,
        train_subset="train",
    )
    try:
        task: TranslationSpecDecTask = TranslationSpecDecTask.setup_task(config)
    except Exception as error:  # fairseq raises bare ones
        reasons = str(error).strip().splitlines() or [type(error).__name__]
        raise UsageError(
            "--data",
            f"the dictionaries dict.{source}.txt and dict.{target}.txt in {folder} cannot be used "
            f"({reasons[0]})",
        ) from error
    if own.reverses(task):
        raise UsageError(
            f"--source-lang {source}, --target-lang {target}",
            f"{path} translates in the other direction",
            "exchange them",
        )
    return task


def _dictionaries(data: str | None, first: str, own: OwnTask) -> str:
    """The folder with the dictionaries: as given, beside the checkpoint, or as trained with."""
    trained = str(own.get("data") or "").split(os.pathsep)[0]
    places = [data] if data is not None else [os.path.dirname(os.path.abspath(first)), trained]
    for folder in filter(None, places):
        if glob.glob(os.path.join(glob.escape(folder), "dict.*.txt")):
            return folder
    problem = f"no dict.*.txt in {' or '.join(filter(None, places))}"
    raise MissingFileError("--data", problem, "name the folder that fairseq-preprocess wrote")


def _languages(folder: str, asked: Languages, own: OwnTask) -> tuple[str, str]:
    """Source and target language: as asked for, as trained with, or as the folder's files say."""
    names = []
    guesses: Languages = data_utils.infer_language_pair(folder)
    for argument, given, guess in zip(("source_lang", "target_lang"), asked, guesses):
        name, flag = given or own.get(argument) or guess, flag_of(argument)
        if not name:
            raise UsageError(flag, "the checkpoint does not name it", "name it")
        if not os.path.isfile(os.path.join(folder, f"dict.{name}.txt")):
            remedy = "name another language, or give --data"
            raise MissingFileError(f"{flag} {name}", f"no dict.{name}.txt in {folder}", remedy)
        names.append(name)
    return names[0], names[1]


def chosen_device(device: str | torch.device | None) -> torch.device:
    """The device asked for, or the GPU where there is one."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise UsageError(f"--device {device}", str(error).splitlines()[0]) from error
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise UsageError(f"--device {device}", "torch sees no GPU", "leave it out for the CPU")
    return chosen


def chosen_dtype(dtype: str | torch.dtype, device: torch.device) -> torch.dtype:
    """The precision asked for."""
    chosen = DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if chosen is None or chosen not in DTYPES.values():
        raise UsageError(f"--dtype {dtype}", f"choose one of {', '.join(DTYPES)}")
    if chosen == torch.float16 and device.type == "cpu":
        raise UsageError(f"--dtype {dtype}", "not on a CPU", "use fp32 or bf16")
    return chosen
