"""Hydra's composition of settings, once for each different set of them.

fairseq composes 15 groups of settings, a quarter of a second, whenever it reads a command line or a
checkpoint that holds an ``argparse.Namespace``, as those of the toys do. The result depends on the
settings and on what is registered; a copy of it takes 7 ms.
"""

import collections
import copy
import json
import os

import fairseq
from fairseq.dataclass import utils
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.experimental import initialize_config_dir


def registered(nodes, *names):
    """The objects under the names of groups, with these, in order."""
    if not isinstance(nodes, dict):
        return [(names, nodes)]
    return [one for name, node in nodes.items() for one in registered(node, *names, name)]


def compose_once(compose=utils.compose, composed=None):
    """A function that does as ``compose`` does.

    Args:
        compose: hydra's.
        composed: a list that is given the arguments of each composition, as JSON.
    """
    known = {}

    def once(name, overrides, **others):
        # The choice of a group may name the environment; the others are resolved afterwards.
        if any("${" in line and "." not in line.split("=")[0] for line in overrides):
            return compose(name, overrides=overrides, **others)
        nodes = registered(ConfigStore.instance().repo)
        groups = ((names, id(node)) for names, node in nodes)
        key = (name, *overrides, *sorted(others.items()), *groups)
        if key not in known:  # with the objects: no other one gets the address of one of them
            known[key] = compose(name, overrides=overrides, **others), nodes
            if composed is not None:
                composed.append(json.dumps(dict(others, name=name, overrides=overrides)))
        return copy.deepcopy(known[key][0])

    return once


class SharedSettings:
    """Settings that a process composes for its forks: those that two of them have composed.

    A command line is composed once and never again, the settings of a checkpoint wherever it is
    read.

    Attributes:
        composed: what this process has composed, a JSON string each.
    """

    def __init__(self):
        self.composed = []
        self._times = collections.Counter()
        self._shared = set()
        utils.compose = compose_once(utils.compose, self.composed)

    def write(self, record):
        """In a fork, at its end: write what it has composed to an open file."""
        record.write("".join(line + "\n" for line in self.composed))
        record.flush()

    def count(self, record):
        """Read what a fork has written."""
        record.seek(0)
        self._times.update(record.read().splitlines())

    def compose(self):
        """Compose what is due, so that forks from now on find it."""
        due = {each for each, times in list(self._times.items()) if times > 1} - self._shared
        self._shared |= due
        for each in due:
            GlobalHydra.instance().clear()
            with initialize_config_dir(os.path.join(os.path.dirname(fairseq.__file__), "config")):
                utils.compose(**json.loads(each))
        self.composed.clear()
