"""What reads a checkpoint here reads it by ``load_checkpoint``: by the source, and by trial."""

import ast
import io
import os
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from in_process import run_here
from pickle_assembly import call, dict_of, dotted, ended, legacy, named, text, zipped
from pickle_payloads import runs

import fairseq_specdec
from fairseq_specdec.conversion import drafter as convert

PLUGIN = pathlib.Path(fairseq_specdec.__path__[0]).resolve()
ROOT = PLUGIN.parent
SCRIPTS = ROOT / "scripts"
UNSAFE_MODULES = {"marshal", "shelve", "dill", "joblib", "cloudpickle", "_pickle", "jsonpickle"}
LOADERS = {"load", "loads", "Unpickler", "_Unpickler", "load_module", "load_state_dict_from_url"}


def unsafe(source):
    """What in a file reads pickles by another way, as 'line: what'."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name in UNSAFE_MODULES]
        elif isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names if alias.name in LOADERS]
            unpickles = node.module in UNSAFE_MODULES | {"pickle", "torch", "torch.serialization"}
            names = names if unpickles else []
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner, name = node.value.id, node.attr
            names = []
            if owner in ("torch", "pickle") and name in LOADERS:
                names = [f"{owner}.{name}"]
            elif owner == "yaml" and name in ("load", "load_all", "unsafe_load", "full_load"):
                names = [f"yaml.{name}"]
            elif owner == "torch" and name in ("hub", "package"):
                names = [f"torch.{name}"]
        elif isinstance(node, ast.Attribute) and node.attr == "load":
            names = ["jit.load"] if getattr(node.value, "attr", "") in ("jit", "export") else []
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "load":
            continue
        else:
            names = []
        found += [f"{node.lineno}: {name}" for name in names]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.keyword) and node.arg in ("weights_only", "allow_pickle"):
            value = getattr(node.value, "value", None)
            if value is not (node.arg == "weights_only"):
                found.append(f"{node.arg}={value}")
        if is_numpy_load(node) and "allow_pickle" not in {word.arg for word in node.keywords}:
            found.append(f"{node.lineno}: numpy.load without allow_pickle=False")
    return found


def is_numpy_load(node):
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    owner = getattr(node.func.value, "id", "")
    return node.func.attr == "load" and owner in ("np", "numpy")


def test_no_source_reads_pickles_by_another_way():
    files = [*PLUGIN.rglob("*.py"), *SCRIPTS.rglob("*.py")]
    assert len(files) > 200
    found = {str(path): unsafe(path.read_text(encoding="utf-8")) for path in files}
    assert {path: what for path, what in found.items() if what} == {}


@pytest.fixture
def hostile(tmp_path):
    """A checkpoint of each layout, and the folder that they would make."""
    canary = tmp_path / "canary"
    one, two = tmp_path / "zip.pt", tmp_path / "legacy.pt"
    body = dict_of(model=call(named("posix", "mkdir"), text(str(canary))))
    one.write_bytes(zipped(ended(body)))
    body = dict_of(args=call(dotted("posix", "mkdir"), text(str(canary))))
    two.write_bytes(legacy(ended(body, 4)))
    return one, two, canary


def test_these_checkpoints_run_code_elsewhere(hostile, tmp_path):
    with pytest.raises(FileExistsError):  # the folder is made again, by the second file
        for name in ("REDUCE", "STACK_GLOBAL"):
            pickle.loads(runs(str(hostile[2]))[name])
    assert hostile[2].exists()


def python(*words):
    return ["{python}", *words]


def command(module):
    return python("-c", f"from fairseq_specdec.{module} import cli_main; cli_main()")


def fairseq(name):
    return python("-m", f"fairseq_cli.{name}")


TRAIN = (
    "{data}", "--user-dir", "{plugin}", "--task", "translation", "--optimizer", "adam", "--lr", "1",
    "--criterion", "cross_entropy", "--batch-size", "8", "--max-update", "1", "--cpu", "--save-dir",
    "{out}", "--num-workers", "0", "--data-buffer-size", "0",
)  # fmt: skip
TINY = ["--arch", "transformer"]
for _side in ("--encoder-", "--decoder-"):
    TINY += [_side + "layers", "1", _side + "embed-dim", "16", _side + "ffn-embed-dim", "16"]
    TINY += [_side + "attention-heads", "2"]
DECODE = ("{data}", "--user-dir", "{plugin}", "--task", "translation_specdec", "--cpu", "--path")
DRAFTED = (*DECODE, "{sound}", "--beam", "1", "--drafter-path", "{evil}", "--strategy")
DRAFTER = ("--arch", "spec_drafter_tiny", "--criterion", "glancing_block_loss")
READERS = {
    "fairseq-generate": (fairseq("generate"), (*DECODE, "{evil}")),
    "fairseq-generate, stock task": (
        fairseq("generate"),
        ("{data}", "--user-dir", "{plugin}", "--cpu", "--path", "{evil}"),
    ),
    "fairseq-interactive": (fairseq("interactive"), (*DECODE, "{evil}")),
    "--drafter-path of gad": (fairseq("generate"), (*DRAFTED, "gad")),
    "--drafter-path of sps": (fairseq("generate"), (*DRAFTED, "sps")),
    "--drafter-path of bild": (fairseq("generate"), (*DRAFTED, "bild")),
    "--restore-file": (fairseq("train"), (*TRAIN, *TINY, "--restore-file", "{evil}")),
    "--finetune-from-model": (fairseq("train"), (*TRAIN, *TINY, "--finetune-from-model", "{evil}")),
    "--init-encoder-from": (fairseq("train"), (*TRAIN, *DRAFTER, "--init-encoder-from", "{evil}")),
    "--init-decoder-from": (fairseq("train"), (*TRAIN, *DRAFTER, "--init-decoder-from", "{evil}")),
    "--eval-verifier": (fairseq("train"), (*TRAIN, *DRAFTER, "--eval-verifier", "{evil}")),
    "--attach-to": (
        fairseq("train"),
        (*TRAIN, "--arch", "attached_drafter", "--criterion", "glancing_block_loss", "--attach-to",
         "{evil}"),
    ),
    "--init-from": (
        fairseq("train"), (*TRAIN, "--arch", "blockwise_transformer", "--init-from", "{evil}")),
    "specdec-convert": (command("conversion.cli"), ("{evil}", "{out}/x.pt")),
    "specdec-distill": (
        command("data.distill"),
        ("{data}", "--path", "{evil}", "--dest", "{out}/new", "--source-lang", "src",
         "--target-lang", "tgt", "--cpu"),
    ),
    "specdec-shortlist": (
        command("data.shortlist"),
        ("{data}", "--drafter-path", "{evil}", "--out", "{out}/x.pt", "--source-lang", "src",
         "--target-lang", "tgt", "--gen-subset", "test"),
    ),
    "specdec-bench": (command("bench.cli"), ("{data}", "--path", "{evil}", "--cpu")),
    "specdec-demo": (command("demo.cli"), ("--path", "{evil}", "--data", "{data}", "--port", "0")),
    "the hub": (
        python("-c", "import sys; from fairseq_specdec.hub import SpeculativeTranslator as Hub; "
               "Hub.from_pretrained(sys.argv[1], data=sys.argv[2], strategy='iad')"),
        ("{evil}", "{data}")),
    "select_layers": (
        python("-m", "fairseq_specdec.training.select_layers"),
        ("{evil}", "{out}/x.pt", "--decoder-layers", "0")),
    "average_checkpoints": (
        python("{scripts}/lib/average_checkpoints.py"), ("{evil}", "--output", "{out}/x.pt")),
    "average_checkpoints --frozen": (
        python("{scripts}/lib/average_checkpoints.py"),
        ("{sound}", "--frozen", "{evil}", "--output", "{out}/x.pt")),
}  # fmt: skip


# In a Python of their own. fairseq's other commands run here, the rest in forks.
NEW = ("fairseq-generate", "the hub")


def said_here(command, words, capsys):
    """What a command of fairseq says as it fails in this process."""
    log = io.StringIO()
    with pytest.raises((Exception, SystemExit)) as caught:
        run_here(command, *words, log=log)
    return "".join([str(caught.value), "\n", log.getvalue(), *capsys.readouterr()])


def said_there(words, folder):
    """What a command says as it fails in a process of its own."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
    done = subprocess.run(
        words, env=dict(environment, PYTHONPATH=str(ROOT)), cwd=str(folder),
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode != 0, (done.stderr + done.stdout)[-2000:]
    return done.stderr + done.stdout


@pytest.mark.parametrize("name", sorted(READERS))
def test_no_command_runs_what_a_checkpoint_says(
    name, hostile, trained, tmp_path, warm_python, capsys, monkeypatch
):
    """The layouts take turns: both are read by the same code everywhere."""
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    turn = sorted(READERS).index(name) % 2
    places = {
        "data": trained.arguments[0], "plugin": PLUGIN, "evil": hostile[turn], "out": tmp_path,
        "sound": trained.checkpoint, "scripts": SCRIPTS,
        "python": sys.executable if name in NEW else warm_python.python,
    }  # fmt: skip
    before, words = ([word.format(**places) for word in part] for part in READERS[name])
    command = before[-1].partition("fairseq_cli.")[2]
    if command and name not in NEW:
        said = said_here(command, words, capsys)
    else:
        said = said_there([*before, *words], tmp_path)
    assert not hostile[2].exists()
    reason = ("names posix.mkdir", "protocol is 4")[turn]
    assert [line for line in said.splitlines() if reason in line], said[-3000:]


def test_a_file_that_specdec_convert_would_replace_is_checked(hostile):
    """It reads what is there already, to see whether it holds the same."""
    for path in hostile[:2]:
        assert not convert._holds(str(path), b"")
    assert not hostile[2].exists()


def test_fairseq_reads_by_this_reader_in_both_places(hostile):
    """It reads averaged weights of the EMA by a second call of torch.load."""
    for path, said in zip(hostile, ("no fairseq checkpoint holds", "protocol is 4")):
        with pytest.raises(pickle.UnpicklingError, match=said):
            checkpoint_utils.load_checkpoint_to_cpu(str(path))
        with pytest.raises(pickle.UnpicklingError, match=said):
            checkpoint_utils.load_ema_from_checkpoint(str(path))
    assert not hostile[2].exists()


@pytest.mark.skipif(torch.__version__ < (2, 6), reason="torch refuses nothing by default")
def test_a_checkpoint_with_arrays_passes_from_process_to_process():
    """fairseq reads what rank 0 sends by torch.load, which refuses numpy's arrays."""
    sent = io.BytesIO()
    torch.save({"counts": np.arange(3)}, sent)
    sent.seek(0)
    got = distributed_utils.torch.load(sent, map_location="cpu")
    assert got["counts"].tolist() == [0, 1, 2]
