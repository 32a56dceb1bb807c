"""Every command that reads a checkpoint, and what it says as it refuses one."""

import importlib
import pathlib

from fairseq.tasks.translation import TranslationTask
from in_process import run_here
from warm_python import entries

import fairseq_specdec
from fairseq_specdec.hub import SpeculativeTranslator
from fairseq_specdec.training.initialisation import load_verifier

PLUGIN = pathlib.Path(fairseq_specdec.__path__[0]).resolve()
SCRIPTS = PLUGIN.parent / "scripts"
TRAIN = (
    "{data}", "--user-dir", "{plugin}", "--task", "translation", "--optimizer", "adam", "--lr", "1",
    "--criterion", "cross_entropy", "--batch-size", "8", "--max-update", "1", "--cpu", "--save-dir",
    "{out}", "--num-workers", "0", "--data-buffer-size", "0",
)  # fmt: skip
TINY = ["--arch", "transformer"]
for _side in ("--encoder-", "--decoder-"):
    TINY += [_side + "layers", "1", _side + "embed-dim", "16", _side + "ffn-embed-dim", "16"]
    TINY += [_side + "attention-heads", "2"]
DATA = ("{data}", "--user-dir", "{plugin}", "--cpu", "--task")
DECODE = (*DATA, "translation_specdec", "--beam", "1", "--path")
DRAFTED = (*DECODE, "{sound}", "--drafter-path", "{evil}", "--strategy")
BLOCK = ("--criterion", "glancing_block_loss", "--block-size", "4", *TINY[2:])
DRAFTER = (*TRAIN, "--arch", "spec_drafter_tiny", *BLOCK)
LANGUAGES = ("--source-lang", "src", "--target-lang", "tgt")
# Those that build a model of the file's settings: a program and its words.
BUILDERS = {
    "fairseq-generate": ("fairseq-generate", (*DECODE, "{evil}")),
    "fairseq-generate, stock task": (
        "fairseq-generate", (*DATA, "translation", "--path", "{evil}")),
    "fairseq-interactive": ("fairseq-interactive", (*DECODE, "{evil}")),
    "--drafter-path of gad": ("fairseq-generate", (*DRAFTED, "gad")),
    "--drafter-path of sps": ("fairseq-generate", (*DRAFTED, "sps")),
    "--drafter-path of bild": ("fairseq-generate", (*DRAFTED, "bild")),
    "--init-encoder-from": ("fairseq-train", (*DRAFTER, "--init-encoder-from", "{evil}")),
    "--init-decoder-from": ("fairseq-train", (*DRAFTER, "--init-decoder-from", "{evil}")),
    "--eval-verifier": ("fairseq-train", (*DRAFTER, "--eval-verifier", "{evil}")),
    "--attach-to": (
        "fairseq-train", (*TRAIN, "--arch", "attached_drafter", *BLOCK, "--attach-to", "{evil}")),
    "specdec-distill": (
        "specdec-distill",
        ("{data}", "--path", "{evil}", "--dest", "{out}/new", *LANGUAGES, "--cpu")),
    "specdec-bench": (
        "specdec-bench",
        ("{data}", "--path", "{evil}", *LANGUAGES, "--cpu", "--limit", "1", "--system",
         "greedy: --strategy greedy")),
    "specdec-serve": (
        "specdec-serve", ("--path", "{evil}", "--data", "{data}", "--port", "0")),
    "the hub": ("hub", ("{evil}", "{data}")),
    "load_verifier": ("load_verifier", ("{evil}", "{data}")),
}  # fmt: skip
READERS = {
    **BUILDERS,
    "--restore-file": ("fairseq-train", (*TRAIN, *TINY, "--restore-file", "{evil}")),
    "--finetune-from-model": ("fairseq-train", (*TRAIN, *TINY, "--finetune-from-model", "{evil}")),
    "--init-from": (
        "fairseq-train", (*TRAIN, "--arch", "blockwise_transformer", "--init-from", "{evil}")),
    "specdec-convert": ("specdec-convert", ("{evil}", "{out}/x.pt")),
    "specdec-shortlist": (
        "specdec-shortlist",
        ("{data}", "--drafter-path", "{evil}", "--out", "{out}/x.pt", *LANGUAGES, "--gen-subset",
         "test")),
    "average_checkpoints": ("average_checkpoints", ("{evil}", "--output", "{out}/x.pt")),
    "average_checkpoints --frozen": (
        "average_checkpoints", ("{sound}", "--frozen", "{evil}", "--output", "{out}/x.pt")),
}  # fmt: skip
DRAFTERS = ("--drafter-path of gad", "specdec-shortlist")
MODULES = {**entries(), "specdec-shortlist": "fairseq_specdec.data.shortlist"}


def run(program, words, log):
    """Run a program in this process."""
    if program.startswith("fairseq-"):
        run_here(program[len("fairseq-") :], *words, log=log)
    elif program == "hub":
        SpeculativeTranslator.from_pretrained(words[0], data=words[1], strategy="greedy")
    elif program == "load_verifier":
        dictionary = TranslationTask.load_dictionary(f"{words[1]}/dict.src.txt")
        load_verifier("--init-encoder-from", words[0], dictionary, dictionary)
    elif program == "average_checkpoints":
        average = importlib.import_module(program)
        average.run(average.parse(words))
    else:
        importlib.import_module(MODULES[program]).cli_main(words)


def words_of(name, path, trained, folder):
    """The command line by which a reader reads ``path``."""
    places = {
        "data": trained.arguments[0], "plugin": PLUGIN, "evil": path, "out": folder,
        "sound": trained.checkpoint,
    }  # fmt: skip
    return [word.format(**places) for word in READERS[name][1]]
