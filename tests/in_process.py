"""fairseq's commands through their real command lines, without a new interpreter for each."""

import contextlib
import importlib
import io
import logging
import os
import pkgutil
import sys
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from fairseq import checkpoint_utils
from warm_python import entries

import fairseq_specdec
from fairseq_specdec.errors import UsageError

PLUGIN = os.path.abspath(fairseq_specdec.__path__[0])
# Of the toy verifiers and drafters that the tests here train.
SHAPE = {
    "encoder_embed_dim": 32, "encoder_ffn_embed_dim": 64, "encoder_attention_heads": 4,
    "encoder_layers": 2, "decoder_layers": 2, "share_all_embeddings": True, "dropout": 0.0,
    "max_source_positions": 64, "max_target_positions": 64,
}  # fmt: skip


def command_line(**flags):
    """``a_b=1`` becomes ``--a-b 1``; True is a bare flag, None leaves the flag out."""
    words = []
    for name, value in flags.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif value is not None:
            words += [flag, str(value)]
    return words


@contextlib.contextmanager
def one_thread():
    """Toy products are too small to share: threads that wait for one another cost far more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class Kept(logging.StreamHandler):
    """A handler that no command takes away as it sets up the log."""


@contextlib.contextmanager
def captured_log(stream):
    """Everything logged at INFO and above goes to ``stream`` too, whatever was set before."""
    root, fairseq = logging.getLogger(), logging.getLogger("fairseq")
    handler = Kept(stream)
    levels = root.level, fairseq.level
    # What another test's command left behind logs to that test's stderr, which is closed by now.
    for left in list(root.handlers):
        if getattr(getattr(left, "stream", None), "closed", False):
            root.removeHandler(left)
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    fairseq.setLevel(logging.NOTSET)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(levels[0])
        fairseq.setLevel(levels[1])


@contextlib.contextmanager
def as_command(words, stream):
    """In here this process is a command with these words; its log goes to a stream."""
    # fairseq keeps the best score so far on a function: a new process would know none.
    vars(checkpoint_utils.save_checkpoint).pop("best", None)
    with captured_log(stream), one_thread(), mock.patch.object(sys, "argv", words):
        yield


def run_here(command, *arguments, log=None, **flags):
    """Run ``fairseq-<command>`` on the CPU with this plugin.

    Args:
        command: ``generate``, ``train`` ...
        arguments: words of the command line.
        log: a stream that keeps the log when the command fails.
        flags: see ``command_line``.

    Returns:
        (stdout, log).
    """
    out, log = io.StringIO(), log or io.StringIO()
    given = dict({"user_dir": PLUGIN, "cpu": True, "num_workers": 0}, **flags)
    words = [f"fairseq-{command}", *map(str, arguments), *command_line(**given)]
    with as_command(words, log), contextlib.redirect_stdout(out):
        importlib.import_module("fairseq_cli." + command).cli_main()
    return out.getvalue(), log.getvalue()


def module_here(module, words, stream):
    """``python -m MODULE WORD...`` in this process: printed and logged to a stream; its status."""
    if module in ("fairseq_cli.generate", "fairseq_cli.train"):
        words = [*words, "--num-workers", "0"]  # workers that are left take 5 s to be collected
    with as_command([module, *words], stream), contextlib.redirect_stdout(stream):
        try:
            importlib.import_module(module).cli_main()
        except SystemExit as ended:
            if isinstance(ended.code, str):
                stream.write(ended.code + "\n")
            return int(bool(ended.code))
        except Exception as error:  # as a new process ends
            stream.write(f"error: {error}\n")
            return 1
    return 0


def refused(program, words):
    """The line that ends a command where its user made a mistake.

    Args:
        program: its name, as ``fairseq-generate`` or ``specdec-serve``.
        words: the rest of the command line.
    """
    entry = entries()[program]
    given = [program, *map(str, words)]
    if program.startswith("fairseq"):
        given += ["--user-dir", PLUGIN]
    # The plugin words what fairseq's commands refuse, and finds their names here.
    spec = SimpleNamespace(name=entry.partition(":")[0])
    with (
        as_command(given, io.StringIO()),
        mock.patch.object(sys.modules["__main__"], "__spec__", spec),
        pytest.raises((UsageError, SystemExit)) as ended,
    ):
        pkgutil.resolve_name(entry)()
    if isinstance(ended.value, UsageError):
        return f"{program}: error: {ended.value.original}"
    return str(ended.value.code)


def lines_of(kind, out):
    """{sentence id: the rest of its line} for the output lines ``<kind>-<id>``."""
    pairs = [line.split("\t", 1) for line in out.splitlines() if line.startswith(kind + "-")]
    result = {head[len(kind) + 1 :]: rest for head, rest in pairs}
    assert len(result) == len(pairs), "a line printed twice"
    return result


def hypotheses(out):
    """{sentence id: (words, score, positional scores)}, as printed."""
    scores = {i: [float(x) for x in rest.split()] for i, rest in lines_of("P", out).items()}
    result = {}
    for number, rest in lines_of("H", out).items():
        score, words = rest.split("\t")
        result[number] = (words.split(), float(score), scores[number])
    return result
