"""Read the checkpoints that a flag names; refuse other files."""

import os
from pickle import UnpicklingError
from typing import Any, Dict, List, Sequence, Tuple

from omegaconf import OmegaConf, open_dict

from fairseq_specdec.io.contents import WrongFileError
from fairseq_specdec.io.printable import flat_message

from .architectures import known_architectures_only
from .misfits import MisfitError
from .settings import RefusedCheckpointError

# Errors whose message names the file and the fault.
_NAMED = (RefusedCheckpointError, WrongFileError, RuntimeError, EOFError, UnpicklingError)


def check_file(flag: str, path: str) -> None:
    """Refuse what is no file."""
    if os.path.isdir(path):
        raise ValueError(
            f"{flag}: {path} is a folder; name a checkpoint, such as checkpoint_best.pt in it"
        )
    if not os.path.exists(path):
        raise ValueError(f"{flag}: no such file: {path}")
    if not os.path.isfile(path):
        raise ValueError(f"{flag}: {path} is no regular file; name a checkpoint")


def read_state(flag: str, path: str) -> Dict[str, Any]:
    """Content of a checkpoint of fairseq, on the CPU: its ``model`` and, in ``cfg`` or ``args``,
    its settings."""
    from fairseq import checkpoint_utils  # imported late, as in all of compat

    check_file(flag, path)
    try:
        state: Dict[str, Any] = checkpoint_utils.load_checkpoint_to_cpu(path)
        if not state.get("model") or not (state.get("cfg") or state.get("args")):
            raise KeyError("no model in it")
    except _NAMED as error:
        raise ValueError(f"{flag}: {error}") from error
    except Exception as error:  # whatever a file that is no checkpoint leads to
        first = (str(error).splitlines() or [""])[0]
        raise ValueError(
            f"{flag}: {path} cannot be read as a fairseq checkpoint ({type(error).__name__}: "
            f"{first}); is the file complete?"
        ) from error
    return state


def load_models(
    flag: str, paths: Sequence[str], task: Any, misfit: str = "", **options: Any
) -> Tuple[List[Any], Any]:
    """Build the models of checkpoints for this project, on the CPU, one by one.

    Args:
        flag: that names them.
        task: whose dictionaries they have.
        misfit: what is added to the error where the dictionaries have other sizes.
        options: of fairseq's ``load_model_ensemble``.

    Returns:
        The models, and the settings of the last one.

    Raises:
        ValueError: a file that is none, or of other dictionaries; names the flag and the file.
    """
    from fairseq import checkpoint_utils

    models, saved = [], None
    for path in paths:
        try:
            with known_architectures_only():
                built, saved = checkpoint_utils.load_model_ensemble([path], task=task, **options)
        except Exception as error:  # torch, pickle, zipfile and fairseq each raise their own
            message = flat_message(error, 400)
            if path not in message:
                kind = type(error).__name__
                raise ValueError(
                    f"{flag}: {path} holds no model that can be built ({kind}: {message}); "
                    "is the file sound?"
                ) from error
            if isinstance(error, MisfitError):
                message += misfit
            raise ValueError(f"{flag}: {message}") from error
        models += built
    return models, saved


def settings_of(state: Dict[str, Any], part: str) -> Any:
    """The settings of ``model`` or ``task`` in a checkpoint of any age."""
    own = (state.get("cfg") or {}).get(part)
    return state.get("args") if own is None else own


def architecture(state: Dict[str, Any]) -> str:
    """``--arch`` of a checkpoint's model."""
    settings = settings_of(state, "model")
    return str(get_setting(settings, "_name") or get_setting(settings, "arch"))


def get_setting(settings: Any, name: str) -> Any:
    """A setting or None: on omegaconf 2.0, ``getattr(config, name, default)`` has no default."""
    if isinstance(settings, dict) or OmegaConf.is_config(settings):
        return settings[name] if name in settings else None
    return getattr(settings, name, None)


def set_setting(settings: Any, **values: Any) -> None:
    """Set values in flags, a dictionary or a YAML's settings, in place, whether they are there."""
    if OmegaConf.is_config(settings):
        with open_dict(settings):
            settings.update(values)
    elif isinstance(settings, dict):
        settings.update(values)
    else:
        vars(settings).update(values)


def reads_speech(weights: Any) -> bool:
    """Whether a checkpoint's weights are those of a model of speech (fairseq's S2T)."""
    return any(name.startswith("encoder.subsample.") for name in weights)
