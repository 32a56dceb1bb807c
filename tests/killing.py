"""Runs that are killed at any rename of a file: nothing else changes what a later run finds."""

import os
import signal

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
