"""Runs that are killed: at any rename of a file, or as a command at any moment."""

import os
import pathlib
import signal
import subprocess
import sys
import time

REPO = pathlib.Path(__file__).resolve().parents[1]

# A command that says what is saved ends so after Ctrl-C.
INTERRUPTED = 128 + int(signal.SIGINT)


def killed_at(run, moment, how=signal.SIGKILL):
    """Run in a process of its own that is killed when it renames for the n-th time.

    Args:
        run: the work, called without arguments.
        moment: how many renames are let through.
        how: SIGKILL or SIGINT.

    Returns:
        whether it came to that.
    """
    pid = os.fork()
    if pid == 0:
        left, renames, status = [moment], (os.replace, os.rename), 0

        def dying(rename):
            def renamed(*paths):
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), how)
                rename(*paths)

            return renamed

        os.replace, os.rename = map(dying, renames)
        try:
            run()
        except SystemExit as end:
            status = int(signal.SIGINT) if end.code == INTERRUPTED else 1
        except KeyboardInterrupt:
            status = int(signal.SIGINT)
        except BaseException:
            status = 1
        finally:
            os._exit(status)
    ended = os.waitpid(pid, 0)[1]
    how_it_ended = ended if os.WIFSIGNALED(ended) else os.WEXITSTATUS(ended)
    assert how_it_ended in (0, how), f"it failed before: {how_it_ended}"
    return how_it_ended == how


class Command:
    """``python -m MODULE WORDS`` in a process group of its own.

    Args:
        module: that of the command.
        words: its arguments.
    """

    def __init__(self, module, *words):
        environment = dict(
            os.environ, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", PYTHONPATH=str(REPO)
        )
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, words)],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip

    def stop_when(self, come, how):
        """Send the signal as soon as ``come()`` is true; how the process ended (see Popen)."""
        try:
            while not come():
                assert self.process.poll() is None, self.process.communicate()[1][-3000:]
                time.sleep(0.005)
            self.process.send_signal(how)
            self.process.communicate()
        finally:
            self.process.kill()
        status = self.process.returncode
        return -int(signal.SIGINT) if status == INTERRUPTED else status

    def finish(self):
        """Its standard output.

        Raises:
            AssertionError: it failed.
        """
        out, log = self.process.communicate()
        assert self.process.returncode == 0, log[-3000:]
        return out
