"""The plugin: patches of the installed fairseq, then the tasks, models and criterions.

fairseq's ``--user-dir`` imports this package; whoever else needs the plugin imports it too.
"""

import os

if __name__ != "fairseq_specdec.tasks":
    raise ImportError(
        f"--user-dir {os.path.dirname(os.path.dirname(__file__))}: the plugin works under its own "
        "name only; call the folder, or the link to it, fairseq_specdec"
    )

from fairseq_specdec import compat  # noqa: E402
from fairseq_specdec.checkpoints import patches  # noqa: E402, F401

compat.apply()  # before anything that builds on fairseq

from fairseq_specdec import criterions, models  # noqa: E402, F401
from fairseq_specdec.commands.in_fairseq import install  # noqa: E402
from fairseq_specdec.compat import user_dir  # noqa: E402
from fairseq_specdec.families import SpecDecMixin, register_specdec  # noqa: E402

from . import translation_specdec  # noqa: E402, F401

user_dir.when_named.append(install)
install()

__all__ = ["SpecDecMixin", "register_specdec"]
