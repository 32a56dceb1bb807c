"""Programs that start at once: a server has imported torch and fairseq, and forks for each call.

``serve SOCKET`` serves. ``call SOCKET MODULE WORD...`` runs ``MODULE.cli_main`` with these words in
a fork of the server, with the caller's folder, environment and standard streams, and exits as it
does.
"""

import array
import importlib
import json
import logging
import os
import socket
import sys
import threading
import traceback

STREAMS = 3


def call(path, module, words):
    """Run a program in the server; its exit status."""
    request = {"module": module, "words": words, "cwd": os.getcwd(), "env": dict(os.environ)}
    streams = array.array("i", range(STREAMS))
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(path)
        line.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
        line.sendall(json.dumps(request).encode("utf-8") + b"\n")
        return int(line.makefile().readline() or 1)


def run_in_fork(request, streams):
    """In the fork: become the program. Never returns."""
    status = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
        sys.argv = [request["module"], *request["words"]]
        if request["module"].startswith("fairseq_specdec"):
            # A fresh one would import fairseq without what that does to the root logger.
            logging.basicConfig(level=logging.WARNING, handlers=[], force=True)
        try:
            importlib.import_module(request["module"]).cli_main()
            status = 0
        except SystemExit as ended:
            if isinstance(ended.code, str):
                sys.stderr.write(ended.code + "\n")
            status = 0 if ended.code is None else ended.code if isinstance(ended.code, int) else 1
        except BaseException:
            traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def answer(line, child):
    """Wait for a fork and tell its exit status."""
    _, status = os.waitpid(child, 0)
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
    line.sendall(f"{code}\n".encode())
    line.close()


def serve(path):
    """Import what takes long, then fork for whoever calls; says ``ready`` first."""
    for module in ("torch", "fairseq.models.transformer", "fairseq_cli.train"):
        importlib.import_module(module)
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(8)
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
            server.close()
            run_in_fork(request, streams)
        for stream in streams:
            os.close(stream)
        threading.Thread(target=answer, args=(line, child), daemon=True).start()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    sys.exit(call(sys.argv[2], sys.argv[3], sys.argv[4:]))
