"""Load the plugin when something needs it, so that importing the package takes no time.

Patching fairseq and registering tasks and models means importing torch and fairseq, which takes
seconds. ``import fairseq_specdec`` puts it off until fairseq is imported, by whomever, or a module
of this package that is not LIGHT. Whoever imports fairseq after this package, or before it, finds
the tasks registered and the patches applied.
"""

import importlib
import importlib.abc
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Optional, Sequence

from .host_logging import host_logging_kept

PACKAGE = __name__.split(".")[0]
# Modules that import neither torch nor fairseq, and packages of which that holds throughout.
LIGHT = ("hub", "serve", "serve.listening", "version")
LIGHT_PACKAGES = ("commands", "io", "loading")
PARTS = ("criterions", "models", "tasks")


def is_light(name: str) -> bool:
    """Whether a module of this package is imported without the plugin."""
    inside = name[len(PACKAGE) + 1 :]
    return inside in LIGHT or inside.split(".")[0] in LIGHT_PACKAGES


def load() -> None:
    """Patch fairseq and register everything; a second call changes nothing."""
    if _ON_DEMAND in sys.meta_path:
        sys.meta_path.remove(_ON_DEMAND)
    if _ON_DEMAND.begun:
        return
    _ON_DEMAND.begun = True
    with host_logging_kept():
        importlib.import_module("fairseq")
    importlib.import_module(f"{PACKAGE}.compat").apply()
    importlib.import_module(f"{PACKAGE}.commands.in_fairseq").install()
    for name in PARTS:  # fairseq is patched before it is extended
        importlib.import_module(f"{PACKAGE}.{name}")


class _Loaded(importlib.abc.Loader):
    """The loader of a module that loading the plugin has imported already."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


class _OnDemand(importlib.abc.MetaPathFinder):
    """Looks on while modules are imported, until the plugin is loaded."""

    begun = False

    def find_spec(
        self, fullname: str, path: Optional[Sequence[Any]], target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        if fullname == "fairseq":
            return self._fairseq()
        if not fullname.startswith(PACKAGE + ".") or is_light(fullname):
            return None
        load()
        # Importlib would run a second time what it finds in sys.modules now.
        module = sys.modules.pop(fullname, None)
        return None if module is None else ModuleSpec(fullname, _Loaded(module))

    def _fairseq(self) -> Optional[ModuleSpec]:
        """fairseq as others find it; the plugin is loaded right after it."""
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("fairseq")
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def run_and_load(module: ModuleType) -> None:
            with host_logging_kept():
                run(module)
            load()

        spec.loader.exec_module = run_and_load  # type: ignore[method-assign]
        return spec


_ON_DEMAND = _OnDemand()


def prepare() -> None:
    """Load the plugin now if fairseq is there, else when it is needed."""
    if "fairseq" in sys.modules:
        load()
    elif _ON_DEMAND not in sys.meta_path:
        sys.meta_path.insert(0, _ON_DEMAND)
