"""What the tests of the distilling command share."""

from fairseq_specdec.data import merge

DECODING = ["--max-tokens", 100, "--max-len-b", 20]  # 100 tokens: many batches
KEEP = [*DECODING, "--on-length-limit", "keep", "--chunk-size", 16]
SIZE = 200


def same_corpus(one, other):
    """Every file but the report and the drops' list, byte for byte."""
    names = {path.name for path in one.iterdir()} - {merge.REPORT}
    assert names == {path.name for path in other.iterdir()} - {merge.REPORT}
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in names)


class Killed(BaseException):
    """No handler of the command may catch it, as none can catch SIGKILL."""


def kill_at(monkeypatch, module, name, matches, times):
    """Die in place of the ``times``-th call whose first argument matches."""
    real, left = getattr(module, name), [times]

    def call(first, *rest, **named):
        if matches in str(first):
            left[0] -= 1
            if left[0] == 0:
                raise Killed
        return real(first, *rest, **named)

    monkeypatch.setattr(module, name, call)
