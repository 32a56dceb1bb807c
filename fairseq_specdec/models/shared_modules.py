"""Models that share most of their modules."""

import copy
from typing import Any


def shallow(module: Any) -> Any:
    """A module with the same parameters and submodules, some of which may then be replaced."""
    made = copy.copy(module)
    made._modules = copy.copy(module._modules)
    return made
