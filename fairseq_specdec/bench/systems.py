"""``--system 'NAME: FLAGS'`` and ``--sweep``: from words to systems."""

from __future__ import annotations

import argparse
import copy
import dataclasses
import itertools
import shlex
import sys
from typing import Any, Dict, List, NamedTuple, NoReturn, Optional, Sequence, Tuple

from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.configs import GenerationConfig
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.tasks.translation import TranslationConfig

from fairseq_specdec.config import TranslationSpecDecConfig
from fairseq_specdec.decoding.builder import (
    beam_of,
    check_generation_flags,
    check_settings,
    rule_of,
    sampler_of,
)

from .timing import System, ours, stock
from .workload import BenchError, Workload, split_paths

# The strategies' flags: fields of the decoding task that fairseq's own task has not.
DECODING = [
    field
    for name, field in TranslationSpecDecConfig.__dataclass_fields__.items()
    if name not in TranslationConfig.__dataclass_fields__
]
GENERATION = tuple(name for name in GenerationConfig.__dataclass_fields__ if name != "_name")

# Generation flags that do not change what stock puts out.
NO_EFFECT = frozenset(
    {"nbest", "sampling", "sampling_topk", "sampling_topp", "print_step"}
    | {"retain_iter_history", "sacrebleu", "no_beamable_mm"}
)


class Plan(NamedTuple):
    """A system as the command line describes it.

    Attributes:
        name: row of the table.
        paths: checkpoints of its verifier.
        generation: fairseq's generation flags by field name.
        flags: the words that describe it.
        settings: the strategy's flags by field name.
        sweep: flag and value, as given, of every swept flag.
        base: name of the system that was swept, or its own.
    """

    name: str
    paths: Tuple[str, ...]
    generation: Dict[str, Any]
    flags: Tuple[str, ...] = ()
    settings: Dict[str, Any] = {}
    sweep: Dict[str, str] = {}
    base: str = ""


class _Parser(argparse.ArgumentParser):
    """Complains with the system's name instead of a usage text of fairseq's many flags."""

    def __init__(self, name: str) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        self.system = name

    def error(self, message: str) -> NoReturn:
        raise BenchError(f"--system {self.system!r}: {message}")


def system_parser(name: str, shared: Any) -> argparse.ArgumentParser:
    """The decoding flags that a system may have.

    Args:
        name: the system's, for messages.
        shared: the command's own flags, which hold where a system says nothing.
    """
    parser = _Parser(name)
    own = [(field.name, field.type, copy.copy(field)) for field in DECODING]
    decoding = dataclasses.make_dataclass("Decoding", own, bases=(FairseqDataclass,))
    gen_parser_from_dataclass(parser, decoding())
    gen_parser_from_dataclass(parser, GenerationConfig())
    parser.add_argument("--path")
    names = [*(field.name for field in DECODING), *GENERATION, "path"]
    parser.set_defaults(**{name: getattr(shared, name) for name in names if hasattr(shared, name)})
    return parser


def make_plan(
    name: str,
    words: Sequence[str],
    shared: Any,
    sweep: Optional[Dict[str, str]] = None,
    base: Optional[str] = None,
) -> Plan:
    """Read and check a system's flags; no model is loaded.

    Raises:
        BenchError: naming the system and the flag.
    """
    args = system_parser(name, shared).parse_args(list(words))
    settings = {field.name: getattr(args, field.name) for field in DECODING}
    if settings.get("trace_path") is not None:
        raise BenchError(
            f"--system {name!r}: --trace-path: a trace takes time, which would be measured; use "
            "fairseq-generate for it"
        )
    if settings["threads"] != getattr(shared, "threads", None):
        raise BenchError(
            f"--system {name!r}: --threads: all systems have the same; give it before --system"
        )
    generation = {key: getattr(args, key) for key in GENERATION if hasattr(args, key)}
    own = argparse.Namespace(**settings)
    try:
        check_settings(own)
        check_generation_flags(argparse.Namespace(**generation), own.strategy)
        rule = rule_of(own, sampler_of(args))
        generation["beam"] = beam_of(args, own.strategy, rule, sys.maxsize)
        paths = split_paths(args.path)
    except (ValueError, BenchError) as error:
        raise BenchError(f"--system {name!r}: {error}") from error
    return Plan(name, paths, generation, tuple(words), settings, sweep or {}, base or name)


def _named(texts: Sequence[str]) -> Dict[str, List[str]]:
    systems: Dict[str, List[str]] = {}
    for text in texts:
        name, colon, flags = text.partition(":")
        name = name.strip()
        if not colon or not name or name.startswith("-"):
            raise BenchError(
                f"--system {text!r}: expected 'NAME: FLAGS', for example 'iad: --strategy iad'"
            )
        if name in systems or name.startswith(("fairseq beam", "CTranslate2")):
            raise BenchError(
                f"--system {name!r}: there is another row of this name; choose another"
            )
        try:
            systems[name] = shlex.split(flags)
        except ValueError as error:
            raise BenchError(f"--system {name!r}: {error}") from error
    return systems


def _sweeps(texts: Sequence[str], systems: Sequence[str]) -> Dict[str, Dict[str, List[str]]]:
    """Values to try, by system and field name, of ``[NAME:]FLAG=V,V`` each."""
    found: Dict[str, Dict[str, List[str]]] = {}
    for text in texts:
        left, _, listed = text.partition("=")
        name, colon, flag = left.rpartition(":")
        name, field, values = name.strip(), flag.strip().lstrip("-"), listed.split(",")
        field = field.replace("-", "_")
        fault = None
        if not all(values):
            fault = "expected FLAG=VALUE,VALUE as in block_size=5,10"
        elif not colon and len(systems) != 1:
            fault = (
                f"there are {len(systems)} systems; say which as in 'NAME: {left.strip()}={listed}'"
            )
        elif field not in {field.name for field in DECODING} | set(GENERATION):
            fault = f"no decoding flag {flag.strip()!r}"
        elif colon and name not in systems:
            fault = f"no --system {name!r}"
        elif len(set(values)) < len(values):
            fault = "a value stands there twice"
        elif field in found.setdefault(name if colon else systems[0], {}):
            fault = f"{field} is swept already"
        if fault is not None:
            raise BenchError(f"--sweep {text!r}: {fault}")
        found[name if colon else systems[0]][field] = values
    return found


def _words(field: str, value: str) -> List[str]:
    """A flag with its value; a switch is true or false."""
    flag = "--" + field.replace("_", "-")
    kinds = {f.name: f.type for f in DECODING}
    kinds.update({n: GenerationConfig.__dataclass_fields__[n].type for n in GENERATION})
    if kinds[field] is not bool:
        return [flag, value]
    if value.lower() not in ("true", "false"):
        raise BenchError(f"--sweep {field}={value}: a switch; expected true or false")
    return [flag] if value.lower() == "true" else []


def make_plans(texts: Sequence[str], sweeps: Sequence[str], shared: Any) -> List[Plan]:
    """All systems in the order of the command line, swept ones crossed with their values.

    Args:
        texts: what ``--system`` was given.
        sweeps: what ``--sweep`` was given.
        shared: the command's own flags.

    Raises:
        BenchError: naming the system or the sweep.
    """
    systems = _named(texts)
    values = _sweeps(sweeps, list(systems))
    plans: List[Plan] = []
    for name, words in systems.items():
        fields = values.get(name, {})
        for chosen in itertools.product(*fields.values()):
            sweep = dict(zip(fields, chosen))
            label = " ".join([name, *(f"{field}={value}" for field, value in sweep.items())])
            if sweep and (label in systems or any(plan.name == label for plan in plans)):
                raise BenchError(f"--system {label!r}: --sweep makes a row of this name too")
            more = [word for pair in sweep.items() for word in _words(*pair)]
            plans.append(make_plan(label, [*words, *more], shared, sweep, name))
    return plans


def with_beam(plan: Plan, beam: int) -> Plan:
    """The same with another ``--beam``."""
    return plan._replace(generation={**plan.generation, "beam": beam})


def reference_key(plan: Plan) -> Tuple[Any, ...]:
    """Plans of one key have one stock decoding to be compared with."""
    flags = {k: repr(v) for k, v in plan.generation.items() if k not in NO_EFFECT}
    return plan.paths, tuple(sorted(flags.items()))


def build(plan: Plan, workload: Workload, **parts: Any) -> System:
    """The system, its models loaded; ``parts`` as ``overrides`` of ``build_generator``.

    Raises:
        BenchError: naming the system and the flag or file that cannot be honoured.
    """
    settings = dict(plan.settings)
    try:
        return ours(
            workload.task,
            workload.models(plan.paths),
            settings.pop("strategy"),
            name=plan.name,
            flags=plan.generation,
            free_unpacked=workload.one_system,
            **parts,
            **settings,
        )
    except (ValueError, BenchError) as error:
        raise BenchError(f"--system {plan.name!r}: {error}") from error


def build_stock(plan: Plan, workload: Workload, beam: int) -> System:
    """Stock beam search of this width over a plan's models, under its constraints."""
    flags = {k: v for k, v in plan.generation.items() if not k.startswith("sampling")}
    return stock(workload.task, workload.models(plan.paths), **dict(flags, beam=beam))
