"""Whatever reads a checkpoint here runs nothing that it names, and resolves no setting: by the
source, and by trial of each way of reading."""

import argparse
import importlib
import io
import itertools
import os
import pathlib
import re
import shlex
import sys

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.tasks.translation import TranslationTask
from hostile_pickles import call, dict_of, dotted, ended, legacy, named, text, zipped
from in_process import run_here
from settings_payloads import HIDDEN, INTERPOLATIONS, PROGRAMS, SETTINGS, filled, write
from warm_python import entries

from fairseq_specdec.checkpoints.settings import RefusedCheckpointError
from fairseq_specdec.compat.user_dir import PACKAGE
from fairseq_specdec.decoding.drafter_file import MASK
from fairseq_specdec.hub import SpeculativeTranslator
from fairseq_specdec.training.initialisation import load_verifier

PLUGIN = pathlib.Path(PACKAGE)
SCRIPTS = PLUGIN.parent / "scripts"
TRAIN = (
    "fairseq-train {data} --user-dir {plugin} --task translation --optimizer adam --lr 1 --cpu "
    "--criterion cross_entropy --batch-size 8 --max-update 1 --save-dir {out} --num-workers 0 "
    "--data-buffer-size 0 --arch"
)
FLAGS = "{data} --user-dir {plugin} --cpu --task"
SPECDEC = f"{FLAGS} translation_specdec --beam 1 --path"
# Every way to read a checkpoint: a program and its words.
READERS = {
    "fairseq-generate": f"fairseq-generate {SPECDEC} {{evil}}",
    "fairseq-generate, stock task": f"fairseq-generate {FLAGS} translation --path {{evil}}",
    "--drafter-path": f"fairseq-generate {SPECDEC} {{sound}} --drafter-path {{evil}} "
    "--strategy gad",
    "specdec-serve": "specdec-serve --path {evil} --data {data} --port 0",
    "the hub": "hub {evil} {data}",
    "load_verifier": "load_verifier {evil} {data}",
    "--restore-file": f"{TRAIN} transformer --encoder-layers 1 --decoder-layers 1 "
    "--encoder-embed-dim 16 --decoder-embed-dim 16 --restore-file {evil}",
    "specdec-convert": "specdec-convert {evil} {out}/x.pt",
    "average_checkpoints": "average_checkpoints {sound} --frozen {evil} --output {out}/x.pt",
}
OPTIONAL = "--restore-file"  # without it stock training begins anew
BUILD_NONE = {"specdec-convert", "average_checkpoints", OPTIONAL}  # of the file's settings


def read_by(name, path, trained, folder, log):
    """Let a reader read ``path`` in this process."""
    words = READERS[name].format(
        data=trained.arguments[0], plugin=PLUGIN, evil=path, out=folder, sound=trained.checkpoint
    )
    program, *words = shlex.split(words)
    if program.startswith("fairseq-"):
        run_here(program[len("fairseq-") :], *words, log=log)
    elif program == "hub":
        SpeculativeTranslator.from_pretrained(words[0], data=words[1], strategy="greedy")
    elif program == "load_verifier":
        dictionary = TranslationTask.load_dictionary(f"{words[1]}/dict.src.txt")
        load_verifier("--init-encoder-from", words[0], dictionary, dictionary)
    elif program == "average_checkpoints":
        average = importlib.import_module(program)
        given = {"inputs": [pathlib.Path(words[0])], "last": None, "half": False}
        paths = {"frozen": pathlib.Path(words[2]), "output": pathlib.Path(words[4])}
        average.run(argparse.Namespace(**given, **paths))
    else:
        importlib.import_module(entries()[program].partition(":")[0]).cli_main(words)


# Whatever else reads pickles, or YAML with objects.
UNSAFE = re.compile(
    r"\b(torch|pickle|yaml|joblib|dill|jit|np|numpy)\.(load|loads|load_all|unsafe_load|full_load)\b"
    r"(?!.*allow_pickle=False)|\b(_?Unpickler|marshal|shelve|cloudpickle|jsonpickle)\b"
    r"|(from|import) (pickle|torch\.serialization) import .*load|weights_only=False"
)
SECRET = "a-secret-word"
LAYOUTS = ("cfg", "args", "namespace")
FASTEST = "load_verifier"


def test_no_source_reads_pickles_by_another_way():
    found = {}
    for path in (*PLUGIN.rglob("*.py"), *SCRIPTS.rglob("*.py")):
        lines = [line.split("#")[0] for line in path.read_text(encoding="utf-8").splitlines()]
        unsafe = [line for line in lines if UNSAFE.search(line) and "``" not in line]
        found.update({path: unsafe} if unsafe else {})
    (load,) = found.pop(PLUGIN / "checkpoints" / "reading.py")
    assert "torch.load(" in load and "weights_only=True" in load
    # Its Loader makes nothing but text, lists and dictionaries.
    assert found == {
        SCRIPTS / "lib" / "recipe_file.py": ["            data = yaml.load(stream, Loader)"]
    }


@pytest.fixture
def state(trained):
    """The content of a sound checkpoint."""
    return torch.load(str(trained.checkpoint), map_location="cpu", weights_only=False)


@pytest.fixture
def refusal(trained, tmp_path, capsys, monkeypatch):
    """The lines about a file that a reader writes as it refuses it."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("aa bb\n"))
    monkeypatch.syspath_prepend(SCRIPTS / "lib")
    monkeypatch.setenv("SPECDEC_SECRET", SECRET)

    def of(name, path):
        log = io.StringIO()
        with pytest.raises((Exception, SystemExit)) as caught:
            read_by(name, path, trained, tmp_path, log)
        output = "".join([str(caught.value), "\n", log.getvalue(), *capsys.readouterr()])
        lines = [line for line in output.splitlines() if str(path).split(":")[-1] in line]
        assert lines and SECRET not in output, output[-3000:]
        return "\n".join(lines)

    return of


@pytest.fixture
def hostile(tmp_path):
    """A checkpoint of each layout, with what is said of it, and the folder that they would make."""
    canary = tmp_path / "canary"
    one, two = tmp_path / "zip.pt", tmp_path / "legacy.pt"
    body = dict_of(model=call(named("posix", "mkdir"), text(str(canary))))
    one.write_bytes(zipped(ended(body)))
    body = dict_of(args=call(dotted("posix", "mkdir"), text(str(canary))))
    two.write_bytes(legacy(ended(body, 4)))
    return [(one, "names posix.mkdir"), (two, "protocol is 4")], canary


@pytest.fixture
def check_setting(state, tmp_path, refusal):
    """Let a reader read a program or an interpolation; the rest of the file is sound."""
    canary, path = tmp_path / "canary", str(tmp_path / "hostile.pt")

    def check(what, reader, layout):
        command, reason = f"touch {canary}", "is not a literal"
        if what in PROGRAMS:
            setting = SETTINGS[list(PROGRAMS).index(what) % 2]
            settings = {setting: PROGRAMS[what].format(repr(command))}
        else:
            settings, reason = filled(INTERPOLATIONS[what], command), "interpolation"
        content = dict(state)
        if reader == "--drafter-path":  # the type is checked first
            content["model"] = dict(state["model"], **{MASK: torch.zeros(16)})
        said = refusal(reader, write(path, content, settings, layout))
        assert reason in said, (what, said)
        assert os.environ["HOME"] not in said or what in PROGRAMS
        assert not canary.exists(), what

    return check


@pytest.mark.parametrize("reader", READERS)
def test_no_reader_runs_or_resolves_or_waits_for_anything(reader, hostile, check_setting, refusal):
    """One of each kind in one layout, in turn: all are read by the same code everywhere."""
    turn, (files, canary) = list(READERS).index(reader), hostile
    path, reason = files[turn % 2]
    assert reason in refusal(reader, path) and not canary.exists()
    check_setting(list(INTERPOLATIONS)[turn % len(INTERPOLATIONS)], reader, LAYOUTS[turn % 3])
    if reader not in BUILD_NONE:
        check_setting(list(PROGRAMS)[turn % len(PROGRAMS)], reader, LAYOUTS[turn % 2])
    if reader != OPTIONAL:
        pipe = canary.with_name("pipe.pt")
        os.mkfifo(pipe)
        assert refusal(reader, pipe)


def test_no_setting_of_any_kind_is_run_or_resolved(check_setting):
    for things, layouts in ((PROGRAMS, LAYOUTS[:2]), (INTERPOLATIONS, LAYOUTS)):
        for layout, what in itertools.product(layouts, things):
            check_setting(what, FASTEST, layout)


@pytest.mark.parametrize("what", HIDDEN)
def test_no_setting_becomes_an_interpolation(what, state, tmp_path, refusal):
    readers = ("fairseq-generate", "fairseq-generate, stock task", "the hub")
    path = write(tmp_path / "hostile.pt", state, filled(HIDDEN[what], ""), "args")
    assert "interpolation" in refusal(readers[list(HIDDEN).index(what) % 3], path)


def test_the_second_model_of_an_ensemble_is_named(state, trained, tmp_path, refusal):
    path = write(tmp_path / "second.pt", state, {SETTINGS[0]: "print(1)"})
    assert "literal" in refusal("fairseq-generate", f"{trained.checkpoint}:{path}")


def test_fairseq_reads_by_this_reader_in_both_places(hostile):
    """It reads averaged weights of the EMA by a second call of torch.load."""
    files, canary = hostile
    for path, message in files:
        for name in ("load_checkpoint_to_cpu", "load_ema_from_checkpoint"):
            with pytest.raises(RefusedCheckpointError, match=message):
                getattr(checkpoint_utils, name)(str(path))
    assert not canary.exists()


def test_a_checkpoint_with_arrays_passes_from_process_to_process():
    """fairseq reads what rank 0 sends by torch.load, which refuses numpy's arrays."""
    sent = io.BytesIO()
    torch.save({"counts": np.arange(3)}, sent)
    sent.seek(0)
    got = distributed_utils.torch.load(sent, map_location="cpu")
    assert got["counts"].tolist() == [0, 1, 2]
