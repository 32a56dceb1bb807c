"""A toy verifier with its data, and a run of the command in this process."""

import contextlib
import types

import pytest
from printed_commands import take_small_steps
from toy_pair import text_of, write_pair
from toy_translation import sentences, translate

from fairseq_specdec.accelerate import cli, measuring, steps
from fairseq_specdec.accelerate.commands import Job, State

SIZES = {"train": 300, "valid": 40}


@pytest.fixture(scope="session")
def toy(tmp_path_factory, fairseq_command):
    """A folder with verifier.pt, text, and bin, what fairseq-preprocess makes of it."""
    folder = tmp_path_factory.mktemp("accelerate")
    write_pair(folder)
    for seed, (split, size) in enumerate(SIZES.items(), start=500):
        sources = sentences(size, seed)
        for side, lines in (("src", sources), ("tgt", map(translate, sources))):
            text = "".join(text_of(line) + "\n" for line in lines)
            (folder / f"{split}.{side}").write_text(text, encoding="utf-8")
    fairseq_command(
        "preprocess", "-s", "src", "-t", "tgt", "--workers", 1, "--destdir", folder / "bin",
        *[f"--{split}pref={folder / split}" for split in SIZES],
        "--srcdict", folder / "dict.src.txt", "--tgtdict", folder / "dict.tgt.txt",
    )  # fmt: skip
    return folder


@pytest.fixture
def job_of():
    """Makes a job in a folder, of one pair, as by a command line. ``more``: other flags."""

    def make(folder, **more):
        args = cli.get_parser().parse_args(["v.pt", "--out", str(folder)])
        vars(args).update({"batch_sizes": (1, 8), **more})
        state = State(str(folder / "state"), {})
        return Job(args, state, "d", "m/verifier.pt", str(folder), ("s-t",), cpu=True)

    return make


@pytest.fixture
def stopped_in_training(monkeypatch):
    """A block in which Ctrl-C ends the command in the second slice of training."""

    @contextlib.contextmanager
    def stop():
        whole, begun = steps.run, []

        def stopped(job, words, log):
            if log == "train.log":
                begun.append(words)
                if len(begun) == 2:
                    raise KeyboardInterrupt
            return whole(job, words, log)

        with monkeypatch.context() as patched:
            patched.setattr(steps, "run", stopped)
            with pytest.raises(SystemExit) as ended:
                yield
        assert ended.value.code == 130

    return stop


@pytest.fixture
def stopping(monkeypatch):
    """The steps end where the first figure would be measured. ``jobs`` so far; ``here``: a block
    that ends so; ``then``: called before."""

    class ReachedError(Exception):
        pass

    stop = types.SimpleNamespace(jobs=[], here=lambda: pytest.raises(ReachedError), then=list)

    def reached(job):
        stop.jobs.append(job)
        job.state.note("compare", done=False)
        stop.then()
        raise ReachedError

    monkeypatch.setattr(measuring, "compare", reached)
    return stop


@pytest.fixture
def small_steps(monkeypatch):
    take_small_steps(monkeypatch)


@pytest.fixture
def accelerate(toy, tmp_path, small_steps):
    """Run the command on the toy; its words end with what is given."""

    def run(*words, data=toy / "bin", path=toy / "verifier.pt", named=True):
        given = [*([data, "--path", path] if named else []), "--out", tmp_path / "out", "--cpu"]
        cli.cli_main(list(map(str, [*given, *words])))
        return tmp_path / "out"

    return run
