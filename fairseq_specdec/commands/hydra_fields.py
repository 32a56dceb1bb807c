"""Errors of fairseq-hydra-train name a setting as its YAML and its command line do.

Messages name flags, as ``--encoder-embed-dim``. Here these become fields, as
``model.encoder_embed_dim``, or ``model.encoder.embed_dim`` where that is what the user wrote.
"""

import argparse
import dataclasses
import os
import re
from typing import Any, Dict, Iterator, Sequence

import yaml

# What a flag's value is where it follows the flag in a message: a number or a file.
_FLAG = re.compile(r"(?<![\w-])--([a-z][a-z0-9-]*)( (?=-?\d|[^\s:;,]*/))?")
_OVERRIDE = re.compile(r"[+~]*([a-z_]+\.[\w.]+)=")
# Flags that choose what a section holds.
_NAMES = {"arch": "model._name", "task": "task._name", "criterion": "criterion._name"}


def with_fields(text: str, words: Sequence[str]) -> str:
    """A message with fields in place of flags; what is no setting stays as it is."""
    settings = _read(words)
    overridden = [each.group(1) for each in map(_OVERRIDE.match, words) if each]
    written = [*_keys(settings), *overridden]
    known = {**_declared(settings), **_NAMES, **{_flat(key): key for key in written}}

    def field(match: Any) -> str:
        key = known.get(match.group(1).replace("-", "_"))
        if key is None:
            return str(match.group())
        return key + ("=" if match.group(2) else "")

    return _FLAG.sub(field, text)


def _flat(key: str) -> str:
    """``model.encoder.embed_dim`` as ``encoder_embed_dim``."""
    return key.partition(".")[2].replace(".", "_")


def _read(words: Sequence[str]) -> Dict[str, Any]:
    """The YAML that the command line names; nothing where it cannot be read."""
    given = dict(zip(words, words[1:]))
    given.update(word.split("=", 1) for word in words if word.startswith("--") and "=" in word)
    folder, name = given.get("--config-dir", ""), given.get("--config-name", "")
    path = os.path.join(folder, name if name.endswith(".yaml") else f"{name}.yaml")
    try:
        with open(path, encoding="utf-8") as stream:
            read = yaml.safe_load(stream)
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return read if isinstance(read, dict) else {}


def _keys(settings: Dict[str, Any], before: str = "") -> Iterator[str]:
    """Dotted names of all settings."""
    for key, value in settings.items():
        name = f"{before}{key}"
        if isinstance(value, dict):
            yield from _keys(value, f"{name}.")
        elif before:
            yield name


def _declared(settings: Dict[str, Any]) -> Dict[str, str]:
    """Where each setting belongs that neither file nor command line has to name."""
    from fairseq.dataclass.configs import FairseqConfig
    from fairseq.models import ARCH_MODEL_REGISTRY
    from fairseq.registry import REGISTRIES

    criterions = REGISTRIES["criterion"]["dataclass_registry"]
    known = {}
    model = ARCH_MODEL_REGISTRY.get(_chosen(settings, "model"))
    if model is not None:
        parser = argparse.ArgumentParser(add_help=False)
        model.add_args(parser)
        known.update({action.dest: f"model.{action.dest}" for action in parser._actions})
    sections = [(field.name, field.type) for field in dataclasses.fields(FairseqConfig)]
    sections.append(("criterion", criterions.get(_chosen(settings, "criterion"))))
    for section, config in reversed(sections):  # model and criterion refer to those of others
        if dataclasses.is_dataclass(config):
            names = [field.name for field in dataclasses.fields(config)]
            known.update({name: f"{section}.{name}" for name in names})
    return known


def _chosen(settings: Dict[str, Any], section: str) -> Any:
    """The name of what a section configures."""
    given = settings.get(section)
    return given.get("_name") if isinstance(given, dict) else given
