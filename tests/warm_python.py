"""A Python that starts at once: a server has imported torch and fairseq, and forks for each call.

``warm_python.py call SOCKET WORD...`` does as ``python WORD...`` would, in a fork of the server and
with the caller's folder, environment and streams. Flags other than ``-m`` and ``-c`` are left to
the interpreter itself. The package under test is imported in the fork, as in a new process: it
changes fairseq when it is imported.
"""

import atexit
import contextlib
import gc
import importlib.metadata
import json
import logging
import os
import pathlib
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading

PRELOADED = ("torch", "fairseq.models.transformer", "fairseq_cli.train", "sacrebleu")
STREAMS = (0, 1, 2)
PROGRAM = """#!{python}
import sys
from {module} import {function}
sys.exit({function}())
"""


def entries():
    """``module:function`` of each program of fairseq and of this project, as pip installs it."""
    every = importlib.metadata.entry_points(group="console_scripts")
    return {each.name: each.value for each in every if each.name[:7] in ("fairseq", "specdec")}


def call(path, words):
    """Run Python in the server; its exit status."""
    words = words[1:] if words[:1] == ["-u"] else words  # of torchrun
    if not words or (words[0].startswith("-") and words[0] not in ("-m", "-c")):
        os.execv(sys.executable, [sys.executable, *words])
    request = json.dumps([words, os.getcwd(), dict(os.environ)]).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        line.connect(path)
        socket.send_fds(line, [request], STREAMS)
        return int(line.recv(16) or 1)


def serve(path):
    """Say ``ready``, then fork for whoever calls on the socket, until the input ends.

    Returns, in each fork, what it is asked to run.
    """
    for module in PRELOADED:
        importlib.import_module(module)
    # Commands set up the log when they are imported.
    for module in [name for name in sys.modules if name.split(".")[0] == "fairseq_cli"]:
        del sys.modules[module]
    logging.basicConfig(level=logging.WARNING, handlers=[], force=True)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.bind(path)
    server.listen()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while server in select.select([server, 0], [], [])[0]:
        line = server.accept()[0]
        request, streams = socket.recv_fds(line, 1 << 20, len(STREAMS))[:2]
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            child = os.fork()
            if child == 0:
                server.close(), line.close()
                for stream, number in zip(streams, STREAMS):
                    os.dup2(stream, number)
                    os.close(stream)
                return json.loads(request)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            with contextlib.suppress(OSError):  # the caller was killed
                line.send(b"%d" % (code if code >= 0 else 128 - code))
            os._exit(0)
        for each in (line.detach(), *streams):
            os.close(each)
    os._exit(0)


def become(words, cwd, env):
    """Do what ``python WORDS`` does."""
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.path[:1] = filter(None, env.get("PYTHONPATH", "").split(os.pathsep))
    if words[0] == "-m":
        sys.path.insert(0, cwd)
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.path.insert(0, "")
        sys.argv = ["-c", *words[2:]]
        exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.path.insert(0, os.path.dirname(os.path.realpath(words[0])))
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")


def run(words, cwd, env):
    """``become``, and exit as Python would, but for taking apart what torch has made: 0.25 s."""
    status = 1
    try:
        become(words, cwd, env)
        status = 0
    except SystemExit as ended:
        if isinstance(ended.code, str):
            sys.stderr.write(ended.code + "\n")
        status = 0 if ended.code is None else ended.code if isinstance(ended.code, int) else 1
    except BaseException as error:
        sys.excepthook(*sys.exc_info())  # the plugin sets it in fairseq's commands
        status = 130 if isinstance(error, KeyboardInterrupt) else 1
    finally:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


class WarmPython:
    """The server, and a folder of programs that call it: ``python`` and those of ``entries``."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="warm")  # a socket's name must be short
        folder, line = pathlib.Path(self._folder.name), f"{self._folder.name}/line"
        self.python = folder / "python"
        caller = f'exec {sys.executable} -S -E {__file__} call {line} "$@"'
        texts = {"python": f"#!/bin/sh\n{caller}\n"}
        for name, entry in entries().items():
            module, _, function = entry.partition(":")
            texts[name] = PROGRAM.format(python=self.python, module=module, function=function)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
            (folder / name).chmod(0o755)
        environment = {name: os.environ[name] for name in os.environ if name != "PYTHONPATH"}
        environment.update(OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
        self._server = subprocess.Popen(
            [sys.executable, __file__, "serve", line], env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._server.stdout.readline() == "ready\n"

    def close(self):
        """Stop the server and remove the programs."""
        self._server.kill()
        self._server.communicate()
        self._folder.cleanup()


if __name__ == "__main__":
    if sys.argv[1] == "call":
        sys.exit(call(sys.argv[2], sys.argv[3:]))
    run(*serve(sys.argv[2]))
