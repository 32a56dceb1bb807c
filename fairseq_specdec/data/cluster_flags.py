"""The flags of a Ray cluster, which ``specdec-distill`` and ``specdec-accelerate`` share."""

import argparse
import importlib.util
import os
from typing import Any

from fairseq_specdec.errors import UsageError

from ..io.flag_values import AT_LEAST_1, add_flag


def add_cluster_flags(group: Any) -> None:
    """Whose workers distil."""
    add_flag(group, "--ray", "hand chunks to the workers of a Ray cluster: HOST:6379, auto, or "
             "local, which starts one on this machine; needs the extra ray", nargs="?",
             const="local", metavar="ADDRESS",
             otherwise="off; without an ADDRESS, local")  # fmt: skip
    add_flag(group, "--ray-workers", "teachers over the cluster", AT_LEAST_1,
             otherwise="one for each GPU, or each CPU core where there is none or with "
             "--cpu")  # fmt: skip


def check_cluster(args: argparse.Namespace) -> None:
    """Refuse what :func:`add_cluster_flags` cannot honour."""
    if args.ray is None:
        if args.ray_workers:
            raise UsageError("--ray-workers", "is the number of --ray's workers", "give --ray too")
    elif os.path.isdir(args.ray):
        raise UsageError(f"--ray {args.ray}", "is a folder", "put it before --ray")
    elif importlib.util.find_spec("ray") is None:
        raise UsageError("--ray", "needs ray", "pip install 'fairseq-specdec[ray]'")
