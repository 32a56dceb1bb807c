"""A Python that starts at once: a server has imported torch and fairseq, and forks for each call.

``serve SOCKET`` serves. ``call SOCKET WORD...`` does as ``python WORD...`` would, in a fork of the
server, with the caller's folder, environment and standard streams, and exits as it does. WORD... is
``-m MODULE ...``, ``-c CODE ...`` or ``FILE ...``, or for a program that pip installs ``-e MODULE
NAME ...``, which calls ``MODULE.cli_main``. Whatever else is left to the interpreter itself.

The package under test is imported in the fork, as in a new process: it changes fairseq when it is
imported, and that is what many of the tests are about.
"""

import array
import atexit
import contextlib
import gc
import importlib
import json
import logging
import os
import pathlib
import runpy
import shlex
import socket
import subprocess
import sys
import tempfile
import threading

STREAMS = 3
PRELOADED = ("torch", "fairseq.models.transformer", "fairseq_cli.train", "sacrebleu")
OWN = {
    "accelerate": "accelerate.cli", "bench": "bench.cli", "convert": "conversion.cli",
    "demo": "serve.cli:demo_main", "distill": "data.distill", "env": "environment.cli",
    "serve": "serve.cli", "trace": "trace.cli", "translate": "hub.cli",
}  # fmt: skip
FAIRSEQ = ("preprocess", "train", "hydra-train", "generate", "interactive", "validate")


def entries():
    """Module of each program, as its entry point: whatever is installed, the checkout on PYTHONPATH
    runs."""
    return {
        **{f"fairseq-{name}": f"fairseq_cli.{name.replace('-', '_')}" for name in FAIRSEQ},
        **{f"specdec-{name}": f"fairseq_specdec.{module}" for name, module in OWN.items()},
    }


# ---- the caller --------------------------------------------------------------------------------


def call(path, words):
    """Run Python in the server; its exit status."""
    words = words[1:] if words[:1] == ["-u"] else words  # of torchrun
    known = words and (not words[0].startswith("-") or words[0] in ("-m", "-c", "-e"))
    if not known:
        os.execv(sys.executable, [sys.executable, *words])
    request = {"words": words, "cwd": os.getcwd(), "env": dict(os.environ)}
    streams = array.array("i", range(STREAMS))
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(path)
        line.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
        line.sendall(json.dumps(request).encode("utf-8") + b"\n")
        return int(line.makefile().readline() or 1)


# ---- the server --------------------------------------------------------------------------------


def prepare():
    """Import what takes long; commands set up the log when they are imported, so these go."""
    for module in PRELOADED:
        importlib.import_module(module)
    for module in [name for name in sys.modules if name.split(".")[0] == "fairseq_cli"]:
        del sys.modules[module]
    logging.basicConfig(level=logging.WARNING, handlers=[], force=True)
    gc.collect()
    gc.freeze()


def answer(line, child):
    """Wait for a fork and tell its exit status."""
    _, status = os.waitpid(child, 0)
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
    with contextlib.suppress(BrokenPipeError):  # the caller was killed
        line.sendall(f"{code}\n".encode())
    line.close()


def end_with(pipe):
    """End when the other end of the pipe is closed, also where its owner was killed."""
    os.read(pipe, 1)
    os._exit(0)


def serve(path):
    """Fork for whoever calls on the socket; says ``ready`` first. Returns in each fork what it is
    asked to run."""
    prepare()
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(8)
    watched = os.dup(0)  # a fork's own input is the caller's
    threading.Thread(target=end_with, args=(watched,), daemon=True).start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        line, _ = server.accept()
        streams = array.array("i")
        _, parts, _, _ = line.recvmsg(1, socket.CMSG_SPACE(STREAMS * streams.itemsize))
        for _, _, data in parts:
            streams.frombytes(data)
        request = json.loads(line.makefile().readline())
        child = os.fork()
        if child == 0:
            for opened in (server.fileno(), line.fileno(), watched):
                os.close(opened)
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            return request
        for stream in streams:
            os.close(stream)
        threading.Thread(target=answer, args=(line, child), daemon=True).start()


def become(words, cwd, env):
    """In the fork: do what ``python WORDS`` does."""
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.path[:1] = filter(None, env.get("PYTHONPATH", "").split(os.pathsep))
    first, rest = words[0], words[1:]
    if first == "-e":
        sys.argv = rest[1:]
        module, _, function = rest[0].partition(":")
        sys.exit(getattr(importlib.import_module(module), function or "cli_main")())
    if first == "-m":
        sys.path.insert(0, cwd)
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.path.insert(0, "")
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.path.insert(0, os.path.dirname(os.path.realpath(first)))
        sys.argv = words
        runpy.run_path(first, run_name="__main__")


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
        others = set(threading.enumerate()) - {threading.current_thread()}
        for thread in others:
            if not thread.daemon:
                thread.join()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


# ---- for tests ---------------------------------------------------------------------------------


def write_program(path, *words):
    """An executable that runs this Python with these words and its own."""
    path.write_text(f'#!/bin/sh\nexec {" ".join(map(shlex.quote, words))} "$@"\n', encoding="utf-8")
    path.chmod(0o755)


class WarmPython:
    """The server, and a folder of programs that call it.

    Attributes:
        programs: the folder; has ``python`` and the programs of ``entries``.
        python: the program that takes the place of ``sys.executable``.

    """

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="warm")  # a socket's name must be short
        self.programs = pathlib.Path(self._folder.name) / "programs"
        self.programs.mkdir()
        self._line = str(self.programs.parent / "line")
        self.python = self.programs / "python"
        caller = [sys.executable, "-S", "-E", __file__, "call", self._line]
        write_program(self.python, *caller)
        for name, module in entries().items():
            write_program(self.programs / name, *caller, "-e", module, name)
        environment = {name: os.environ[name] for name in os.environ if name != "PYTHONPATH"}
        environment.update(OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
        self._server = subprocess.Popen(
            [sys.executable, __file__, "serve", self._line],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._server.stdout.readline() == "ready\n"

    def close(self):
        """Stop the server and remove the programs."""
        self._server.kill()
        self._server.communicate()
        self._folder.cleanup()


if __name__ == "__main__":
    if sys.argv[1] == "call":
        sys.exit(call(sys.argv[2], sys.argv[3:]))
    run(**serve(sys.argv[2]))
