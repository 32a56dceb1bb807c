"""Every command that reads a checkpoint, as a program and its words."""

import importlib
import pathlib
import pkgutil
import shlex

from fairseq.tasks.translation import TranslationTask
from in_process import run_here
from warm_python import entries

import fairseq_specdec
from fairseq_specdec.hub import SpeculativeTranslator
from fairseq_specdec.training.initialisation import load_verifier

PLUGIN = pathlib.Path(fairseq_specdec.__path__[0]).resolve()
SCRIPTS = PLUGIN.parent / "scripts"
SIDES = " ".join(
    f"--{side}-layers 1 --{side}-embed-dim 16 --{side}-ffn-embed-dim 16 --{side}-attention-heads 2"
    for side in ("encoder", "decoder")
)
TRAIN = (
    "fairseq-train {data} --user-dir {plugin} --task translation --optimizer adam --lr 1 --cpu "
    "--criterion cross_entropy --batch-size 8 --max-update 1 --save-dir {out} --num-workers 0 "
    "--data-buffer-size 0 --arch"
)
BLOCK = f"--criterion glancing_block_loss --block-size 4 {SIDES}"
DRAFTER = f"{TRAIN} spec_drafter_tiny {BLOCK}"
FLAGS = "{data} --user-dir {plugin} --cpu --task"
SPECDEC = f"{FLAGS} translation_specdec --beam 1 --path"
DRAFTED = f"fairseq-generate {SPECDEC} {{sound}} --drafter-path {{evil}} --strategy"
LANGUAGES = "--source-lang src --target-lang tgt"
# Those that build a model of the file's settings.
BUILDERS = {
    "fairseq-generate": f"fairseq-generate {SPECDEC} {{evil}}",
    "fairseq-generate, stock task": f"fairseq-generate {FLAGS} translation --path {{evil}}",
    "fairseq-interactive": f"fairseq-interactive {SPECDEC} {{evil}}",
    **{f"--drafter-path of {each}": f"{DRAFTED} {each}" for each in ("gad", "sps", "bild")},
    **{
        flag: f"{DRAFTER} {flag} {{evil}}"
        for flag in ("--init-encoder-from", "--init-decoder-from", "--eval-verifier")
    },
    "--attach-to": f"{TRAIN} attached_drafter {BLOCK} --attach-to {{evil}}",
    "specdec-distill": f"specdec-distill {{data}} --path {{evil}} --dest {{out}}/new {LANGUAGES} "
    "--cpu",
    "specdec-bench": f"specdec-bench {{data}} --path {{evil}} {LANGUAGES} --cpu --limit 1 "
    "--system 'greedy: --strategy greedy'",
    "specdec-serve": "specdec-serve --path {evil} --data {data} --port 0",
    "the hub": "hub {evil} {data}",
    "load_verifier": "load_verifier {evil} {data}",
}
READERS = {
    **BUILDERS,
    "--restore-file": f"{TRAIN} transformer {SIDES} --restore-file {{evil}}",
    "--finetune-from-model": f"{TRAIN} transformer {SIDES} --finetune-from-model {{evil}}",
    "--init-from": f"{TRAIN} blockwise_transformer --init-from {{evil}}",
    "specdec-convert": "specdec-convert {evil} {out}/x.pt",
    "specdec-shortlist": f"specdec-shortlist {{data}} --drafter-path {{evil}} --out {{out}}/x.pt "
    f"{LANGUAGES} --gen-subset test",
    "average_checkpoints": "average_checkpoints {evil} --output {out}/x.pt",
    "--frozen": "average_checkpoints {sound} --frozen {evil} --output {out}/x.pt",
}
DRAFTERS = ("--drafter-path of gad", "specdec-shortlist")
PROGRAMS = {**entries(), "specdec-shortlist": "fairseq_specdec.data.shortlist:cli_main"}


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
        average.run(average.parse(words))
    else:
        pkgutil.resolve_name(PROGRAMS[program])(words)
