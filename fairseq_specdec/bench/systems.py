"""``--system 'NAME: FLAGS'`` and ``--sweep``: from arguments to systems."""

from __future__ import annotations

import argparse
import copy
import dataclasses
import itertools
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.configs import GenerationConfig
from fairseq.dataclass.utils import gen_parser_from_dataclass

from fairseq_specdec.config import OWN_FIELDS, decoding_settings
from fairseq_specdec.decoding.builder import Overrides, build_generator, check_settings, rule_of
from fairseq_specdec.decoding.generation_flags import beam_of, check_generation_flags, sampler_of
from fairseq_specdec.decoding.stats import DecodingStats
from fairseq_specdec.decoding.strategies import STRATEGIES
from fairseq_specdec.errors import UsageError
from fairseq_specdec.families.languages import of_task
from fairseq_specdec.families.stock_generator import decided

from ..io.flag_values import flag_of
from .timing import System, generation_flags
from .workload import Workload, blaming, refuse, split_paths

GENERATION = tuple(name for name in GenerationConfig.__dataclass_fields__ if name != "_name")
OWN = tuple(field.name for field in OWN_FIELDS)
DEFAULTS = {field.name: field.default for field in OWN_FIELDS}
# The type of every flag that a system may have.
TYPES: dict[str, Any] = {field.name: field.type for field in OWN_FIELDS}
TYPES.update((name, GenerationConfig.__dataclass_fields__[name].type) for name in GENERATION)
# Generation flags that do not change what stock puts out.
NO_EFFECT = {
    "nbest", "sampling", "sampling_topk", "sampling_topp", "print_step", "retain_iter_history",
    "sacrebleu", "no_beamable_mm",
}  # fmt: skip
PLAIN = ("greedy", "none")  # strategies that draft nothing
# Settings of the engine, which change how long a pass of the verifier takes.
ENGINE = ("verifier_dtype", "backend", "cuda_graphs")
# Settings that are of no strategy.
SHARED = (*ENGINE, "threads", "keep_weights")
# Settings that all systems share.
SAME_FOR_ALL = ("threads", "trace_path")


class Plan(NamedTuple):
    """A system as the command line describes it."""

    name: str
    paths: tuple[str, ...]
    generation: dict[str, Any]  # fairseq's generation flags by field name
    flags: tuple[str, ...] = ()  # the arguments that describe it
    settings: dict[str, Any] = {}
    sweep: dict[str, str] = {}  # flag and value, as given, of every swept flag
    base: str = ""  # name of the system that was swept, or its own
    # makes the system; None of this project's
    make: Callable[[Plan, Workload], System] | None = None

    def system(self, workload: Workload) -> System:
        """The system, its models loaded."""
        return (self.make or build)(self, workload)


def given(args: argparse.Namespace, names: Sequence[str] = GENERATION) -> dict[str, Any]:
    """Those of the flags that a command line has, by field name."""
    return {name: getattr(args, name) for name in names if hasattr(args, name)}


def make_plan(name: str, arguments: Sequence[str], shared: argparse.Namespace) -> Plan:
    """Read and check a system's flags; no model is loaded. ``shared``: the flags before it."""

    def complain(message: str) -> NoReturn:
        raise UsageError(f"--system {name!r}", message)

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.error = complain  # type: ignore[method-assign]
    own = [field for field in OWN_FIELDS if field.name not in SAME_FOR_ALL]
    fields = [(field.name, field.type, copy.copy(field)) for field in own]
    decoding = dataclasses.make_dataclass("Decoding", fields, bases=(FairseqDataclass,))
    gen_parser_from_dataclass(parser, decoding())
    gen_parser_from_dataclass(parser, GenerationConfig())
    parser.add_argument("--path")
    parser.set_defaults(**{**DEFAULTS, **given(shared, [*TYPES, "path"])})
    args = parser.parse_args(list(arguments))
    if args.strategy in STRATEGIES and STRATEGIES[args.strategy].needs_drafter:
        args.drafter_path = args.drafter_path or getattr(shared, "beside", None)
    settings, generation = given(args, OWN), given(args)
    with blaming(f"--system {name!r}: "):
        check_settings(argparse.Namespace(**settings))
        check_generation_flags(argparse.Namespace(**generation), args.strategy)
        rule = rule_of(args, sampler_of(args))
        generation["beam"] = beam_of(args, args.strategy, rule, sys.maxsize)
        paths = split_paths(args.path)
    return Plan(name, paths, generation, tuple(arguments), settings, base=name)


def make_plans(
    texts: Sequence[str], sweeps: Sequence[str], shared: argparse.Namespace
) -> list[Plan]:
    """All systems in the order of the command line, swept ones crossed with their values. Refuses
    a strategy's flag before ``--system`` that holds for no system: stock has none."""
    systems: dict[str, list[str]] = {}
    for text in texts:
        name, colon, flags = text.partition(":")
        name = name.strip()
        refuse({
            f"--system {text!r}: expected 'NAME: FLAGS', for example 'iad: --strategy iad'":
                not colon or not name or name.startswith("-"),
            f"--system {name!r}: there is another row of this name; choose another":
                name in systems or name.startswith("fairseq beam"),
        })  # fmt: skip
        with blaming(f"--system {name!r}: "):
            systems[name] = shlex.split(flags)
    values = _sweeps(sweeps, list(systems))
    plans: dict[str, Plan] = {}
    for name, arguments in systems.items():
        fields = values.get(name, {})
        for chosen in itertools.product(*fields.values()):
            sweep = dict(zip(fields, chosen))
            label = " ".join([name, *(f"{field}={value}" for field, value in sweep.items())])
            if sweep and label in (*systems, *plans):
                raise UsageError(f"--system {label!r}", "--sweep makes a row of this name too")
            more = [part for pair in sweep.items() for part in _arguments(*pair)]
            plan = make_plan(label, [*arguments, *more], shared)
            plans[label] = plan._replace(sweep=sweep, base=name)
    for name, default in DEFAULTS.items():
        value = getattr(shared, name, default)
        used = any(plan.settings[name] == value for plan in plans.values())
        if value != default and not used and name != "threads":
            raise UsageError(
                f"{flag_of(name)} {value}",
                "no --system uses it",
                "leave it out, or give it to one, as in --system 'gad: --strategy gad "
                "--drafter-path FILE'",
            )
    return list(plans.values())


def _sweeps(texts: Sequence[str], systems: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    """Values to try, by system and field name, of ``[NAME:]FLAG=V,V`` each."""
    by_system: dict[str, dict[str, list[str]]] = {}
    for text in texts:
        left, _, listed = text.partition("=")
        name, colon, named = map(str.strip, left.rpartition(":"))
        field, values = named.lstrip("-").replace("-", "_"), listed.split(",")
        mine = by_system.setdefault(name if colon else "".join(systems[:1]), {})
        switch = TYPES.get(field) is bool
        faults = {
            "expected FLAG=VALUE,VALUE as in block_size=5,10": not all(values),
            f"there are {len(systems)} systems; name one as in 'NAME: {text}'":
                not colon and len(systems) != 1,
            f"no decoding flag {named!r}": field not in TYPES,
            f"no --system {name!r}": colon and name not in systems,
            f"{field} is swept already": field in mine,
            "a switch; expected true or false": switch and not set(values) <= {"true", "false"},
        }  # fmt: skip
        refuse({f"--sweep {text!r}: {fault}": there for fault, there in faults.items()})
        mine[field] = values
    return by_system


def _arguments(field: str, value: str) -> list[str]:
    """A flag with its value; a switch is true or false."""
    if TYPES[field] is bool:
        return [flag_of(field)] * (value == "true")
    return [flag_of(field), value]


def with_beam(plan: Plan, beam: int) -> Plan:
    """The same with another ``--beam``."""
    return plan._replace(generation={**plan.generation, "beam": beam})


def _likeness(plan: Plan) -> tuple[Any, ...]:
    """Beam, whether samples are drawn, and settings of the engine: rows with the same values differ
    by their drafts."""
    search = (plan.generation["beam"], bool(plan.generation.get("sampling")))
    return (*search, *(plan.settings[name] for name in ENGINE))


def with_greedy(plans: Sequence[Plan], shared: argparse.Namespace) -> list[Plan]:
    """The systems, after a greedy row of the shared verifier for each beam and engine of which
    there is none."""
    rows: list[Plan] = []
    for plan in plans:
        if greedy_of(plan, [*rows, *plans]) is None:
            settings = {**DEFAULTS, **{k: plan.settings[k] for k in SHARED}, "strategy": "greedy"}
            search = {name: plan.generation[name] for name in ("beam", "nbest", "sampling")}
            parts = ["greedy", *[f"beam {search['beam']}"] * (search["beam"] > 1)]
            parts += ["sampling"] * search["sampling"]
            name = " ".join(parts + [settings[k] for k in ENGINE if settings[k] != DEFAULTS[k]])
            while name in {each.name for each in plans}:
                name += ", plain"
            generation = {**given(shared), **search}
            paths = split_paths(shared.path)
            rows.append(Plan(name, paths, generation, settings=settings, base=name))
    return [*rows, *plans]


def greedy_of(plan: Plan, plans: Sequence[Plan]) -> Plan | None:
    """The greedy row that a row is compared with: of the same beam and engine, of its own verifier
    if there is one. None where there is no such row, and for stock and other engines, which have no
    settings."""
    ours = [each for each in plans if each.settings.get("strategy") in PLAIN]
    if plan in ours or not plan.settings:
        return plan if plan.settings else None
    same = [each for each in ours if _likeness(each) == _likeness(plan)]
    own = [each for each in same if each.paths == plan.paths]
    return next(iter(own or same), None)


def reference_key(plan: Plan) -> tuple[Any, ...]:
    """Plans of one key have one stock decoding to be compared with."""
    flags = {k: repr(v) for k, v in plan.generation.items() if k not in NO_EFFECT}
    return plan.paths, tuple(sorted(flags.items()))


def build(plan: Plan, workload: Workload, overrides: Overrides | None = None) -> System:
    """The system, its models loaded."""
    flags, stats, task = generation_flags(**plan.generation), DecodingStats(), workload.task
    dictionaries = (task.source_dictionary, task.target_dictionary)
    with blaming(f"--system {plan.name!r}: "):
        models, settings = workload.models(plan.paths), decoding_settings(**plan.settings)
        stock = task.build_generator(models, flags)
        args, extra = decided(stock, flags, workload.config.task._name)
        generator = build_generator(
            models, *dictionaries, args, settings, extra, stats,
            overrides=overrides or Overrides(), free_unpacked=workload.one_system,
            load=lambda path, src, tgt, read, dtype: of_task(
                read(path, src, tgt), workload.config.task
            ),
        )  # fmt: skip
    return System(
        plan.name, generator, models, stats, prefix_size=flags.prefix_size, sampled=flags.sampling,
        step=task.inference_step,
    )  # fmt: skip


def build_stock(plan: Plan, workload: Workload, beam: int) -> System:
    """Stock beam search of this width over a plan's models, under its constraints."""
    models = workload.models(plan.paths)
    given = {k: v for k, v in plan.generation.items() if not k.startswith("sampling")}
    flags = generation_flags(**{**given, "beam": beam})
    generator = workload.task.build_generator(models, flags)

    def step(*args: Any, **more: Any) -> Any:
        for model in models:
            if hasattr(model, "set_beam_size"):  # BART keeps the last one above 1
                model.set_beam_size(beam)
        return workload.task.inference_step(*args, **more)

    return System(
        f"fairseq beam {beam}", generator, models, stock=True, prefix_size=flags.prefix_size,
        step=step,
    )  # fmt: skip
