"""Result files: their names are checked first, and each is whole or absent."""

from __future__ import annotations

import os
from typing import Any, Dict

from fairseq_specdec.io.atomic import write_bytes, write_json, write_text

from . import plots
from .page import page
from .workload import BenchError

FILES = ("json", "markdown", "html")
FOLDERS = ("plots",)


def check(args: Any) -> None:
    """Refuse, before anything is measured, names under which nothing can be written.

    Args:
        args: the command line.

    Raises:
        BenchError: naming the flag.
    """
    for flag in (*FILES, *FOLDERS):
        path = getattr(args, flag)
        if not path:
            continue
        at = os.path.abspath(path)
        if flag in FILES and os.path.isdir(at):
            raise BenchError(f"--{flag} {path}: is a folder; name a file")
        folder = at if flag in FOLDERS else os.path.dirname(at)
        while not os.path.exists(folder):
            folder = os.path.dirname(folder)
        if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
            raise BenchError(f"--{flag} {path}: {folder} is no folder that can be written to")


def write(args: Any, run: Dict[str, Any], markdown: str, replay: bool = False) -> None:
    """Write the files asked for, with what is known so far; their folders are made.

    Args:
        args: the command line.
        run: what ``--json`` holds.
        markdown: what ``--markdown`` holds.
        replay: whether the run is a replay, which its pictures' names and captions say.
    """
    if args.json:
        write_json(args.json, run, make_folder=True)
    if args.markdown:
        write_text(args.markdown, markdown, make_folder=True)
    pictures = plots.draw(run) if args.plots or args.html else []
    if replay:
        pictures = [
            each._replace(name=f"replay_{each.name}", caption=f"Replay. {each.caption}")
            for each in pictures
        ]
    for each in pictures if args.plots else []:
        write_bytes(os.path.join(args.plots, each.name + ".png"), each.png, make_folder=True)
    if args.html:
        write_text(args.html, page(run, pictures), make_folder=True)
