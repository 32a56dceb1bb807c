"""A folder in which the pages' commands run: toy models and corpora under the names they use."""

import importlib.util
import itertools
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tarfile

import torch
from doc_pages import BLOCKS, ROOT, commands_in
from fairseq.data import indexed_dataset
from toy_blockwise import save_checkpoint, toy_blockwise
from toy_cache import cached_folder, key
from toy_early_exit import make_args, toy_early_exit
from toy_pair import text_of, write_pair
from toy_translation import dictionary, sentences, toy_model, translate
from warm_python import WarmPython, write_program

from fairseq_specdec.hub import SpeculativeTranslator
from fairseq_specdec.trace import write_traces

for name in ("legacy", "tasks"):
    sys.path.insert(0, str(ROOT / "tests" / name))
import families_toys  # noqa: E402
from authors_layout import authors_checkpoint, authors_drafter  # noqa: E402

SIZES = {"train": 200, "valid": 20, "test": 12}
RAW_SIZES = {"train": 2000, "valid": 50, "test": 30}
SHARED = ("fairseq_specdec", "scripts", "configs", "tests")
DEMOS = {"demo_ende": ("en", "de"), "demo_edit": ("src", "tgt")}
DEMO_SENTENCES = 6
SHAPE = " ".join(
    f"--{side}-{name} {value}"
    for side in ("encoder", "decoder")
    for name, value in (
        ("embed-dim", 32), ("ffn-embed-dim", 64), ("attention-heads", 4), ("layers", 2)
    )
)  # fmt: skip
BRIEF = "--num-workers 0 --data-buffer-size 0"
# What makes a command small enough, in the order in which it is done.
SMALLER = [
    (r"--max-update \d+", f"--max-update 4 {BRIEF}"),
    (r"--arch (transformer|attached_drafter|early_exit_transformer)(_base)? ", r"--arch \1 SHAPE "),
    (r"--arch spec_drafter_base ", "--arch spec_drafter_tiny SHAPE "),
    (r"--arch attached_drafter SHAPE", "--arch attached_drafter_tiny SHAPE"),
    ("SHAPE", SHAPE),
    (
        r"--config-name spec_drafter_leftward",
        "--config-name spec_drafter_toy optimization.max_update=4 dataset.data_buffer_size=0",
    ),
    # A verifier of 4 updates does not know where to end.
    (r"(--dest data-bin/languages-distilled)", r"\1 --limit 50"),
    (r"--init-decoder-layers 0,5", "--init-decoder-layers 0,1"),
    (
        r"(--dest data-bin/(?:distilled --task|by_teacher --beam))",
        r"--max-len-b 12 --on-length-limit keep \1",
    ),
    (r"--save-interval-updates \d+", "--save-interval-updates 2"),
    (r"--last 5", "--last 2"),
    (r"learn-bpe -s 32000", "learn-bpe -s 500"),
    (r"vocab_size=32000", "vocab_size=500"),
    (r"--nproc_per_node \d+", "--nproc_per_node 2"),
    (r"--array=0-15", "--array=0-0"),
    (
        r"--batch-size 1,8,32 --repeats 3 --threads 1",
        "--batch-size 1,4 --limit 4 --warmup 0 --threads 1",
    ),
    (r"--cpu --limit \d+", "--cpu --limit 2 --warmup 0"),
    (r"lib/noise.py ", "lib/noise.py --confusion-sets confusions.txt "),
]
# The task of each published model, and the architecture of the toy in its place.
ARCHITECTURES = {
    "translation": "bart_base",
    "translation_from_pretrained_bart": "mbart_base",
    "translation_multi_simple_epoch": "transformer",
}
# Flags of decoding that training takes, too.
OF_TRAINING = (
    "--source-lang", "--target-lang", "--langs", "--lang-dict", "--lang-pairs",
    "--fixed-dictionary", "--encoder-langtok",
)  # fmt: skip
PLOTS = (r"--(?:html|plots) \S+", "")
# A server runs until it is interrupted: here until it has answered.
SERVED = """
import signal, subprocess, sys, urllib.request
code = "from fairseq_specdec.serve.cli import {main}; {main}()"
words = [sys.executable, "-c", code, "--port", "0", "--device", "cpu", *sys.argv[1:]]
process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
try:
    url = process.stdout.readline().split(" at ")[1].split()[0]
    assert b"{holds}" in urllib.request.urlopen(url + "{path}", timeout=120).read()
    process.send_signal(signal.SIGINT)
    sys.exit(process.wait(120))
finally:
    process.kill()
"""
DEMO = SERVED.format(main="demo_main", path="", holds="drafter proposes")
SERVE = SERVED.format(main="cli_main", path="languages", holds="targets")
# Slurm runs each element of an array by itself.
SBATCH = """
import os, subprocess, sys
array = next(word for word in sys.argv if word.startswith("--array="))
first, last = map(int, array.split("=")[1].split("-"))
for number in range(first, last + 1):
    names = dict(TASK_ID=number, TASK_COUNT=last - first + 1, TASK_MIN=first)
    env = {f"SLURM_ARRAY_{name}": str(value) for name, value in names.items()}
    wrapped = sys.argv[sys.argv.index("--wrap") + 1]
    subprocess.run(["bash", "-ec", wrapped], env=dict(os.environ, **env), check=True)
"""

SLOW_PROGRAMS = {
    "torchrun": ("-m", "torch.distributed.run"),
    "specdec-demo": ("-c", DEMO),
    "specdec-serve": ("-c", SERVE),
    "sbatch": ("-c", SBATCH),
}


def smaller(text):
    """A script with its numbers and shapes brought down."""
    drawing = importlib.util.find_spec("matplotlib") is not None
    for pattern, replacement in SMALLER + ([] if drawing else [PLOTS]):
        text = re.sub(pattern, replacement, text)
    return text


def raw_text(side):
    """Real sentences: those that lie beside the checkout, else the demo pair's held-out ones."""
    for parent in ROOT.parents:
        archive = parent / "shared" / "data" / "ende.tar.xz"
        if archive.is_file():
            with tarfile.open(str(archive)) as files:
                return files.extractfile(f"ende/train.{side}").read().decode("utf-8").split("\n")
    held = ROOT / "data-bin" / "demo_ende" / f"heldout.{side}"
    return held.read_text(encoding="utf-8").split("\n")


def write_raw_text(folder):
    """``{train,valid,test}.{en,de}``: 2,000 pairs to train on."""
    for side in ("en", "de"):
        lines = itertools.cycle(filter(None, raw_text(side)[:2200]))
        for split, size in RAW_SIZES.items():
            text = "".join(f"{line}\n" for line in itertools.islice(lines, size))
            (folder / f"{split}.{side}").write_text(text, encoding="utf-8")


def make_demo(name, languages, folder):
    """The demo pair with its first sentences only; left out where the checkout has none."""
    source = ROOT / "data-bin" / name
    if not (source / "verifier.pt").is_file():
        return
    folder.mkdir()
    split = f"test.{'-'.join(languages)}"
    for path in source.iterdir():
        if not path.name.startswith(split + "."):
            (folder / path.name).symlink_to(path)
    for language in languages:
        data = indexed_dataset.make_dataset(str(source / f"{split}.{language}"), "mmap")
        stem = str(folder / f"{split}.{language}")
        builder = indexed_dataset.make_builder(stem + ".bin", "mmap", vocab_size=40000)
        for i in range(DEMO_SENTENCES):
            builder.add_item(data[i])
        builder.finalize(stem + ".idx")


def make_corpus(folder, run):
    """Raw text of the toy language in ``corpus``, binarised with the toy models' dictionary."""
    (folder / "corpus").mkdir()
    for seed, (split, size) in enumerate(SIZES.items(), start=100):
        sources = sentences(size, seed)
        for side, lines in (("en", sources), ("de", map(translate, sources))):
            text = "".join(text_of(line) + "\n" for line in lines)
            (folder / "corpus" / f"{split}.bpe.{side}").write_text(text, encoding="utf-8")
    dictionary().save(str(folder / "dict.txt"))
    prefixes = " ".join(f"--{split}pref corpus/{split}.bpe" for split in SIZES)
    run(
        "fairseq-preprocess -s en -t de --srcdict dict.txt --tgtdict dict.txt --workers 1 "
        f"{prefixes} --destdir data-bin/corpus"
    )
    for name in ("distilled", "authors"):
        shutil.copytree(str(folder / "data-bin" / "corpus"), str(folder / "data-bin" / name))


def save_blockwise(path, model):
    """A blockwise checkpoint: a plain one whose settings name its heads."""
    save_checkpoint(path, model)
    state = torch.load(str(path), weights_only=False)
    arch = "blockwise_transformer"
    given = {"init_from": None, "freeze_base": True, "block_size": model.decoder.block_size}
    for name, value in dict(given, arch=arch, _name=arch).items():
        setattr(state["args"], name, value)
    torch.save(state, str(path))


def save_early_exit(path, model):
    save_checkpoint(path, toy_model())
    state = torch.load(str(path), weights_only=False)
    args = make_args(exit_layer=1)
    args._name = args.arch = "early_exit_transformer_tiny"
    torch.save(dict(state, args=args, model=model.state_dict()), str(path))


def make_models(folder):
    """Every checkpoint that a page names, by that name."""
    write_pair(folder)
    for name in ("teacher", "authors_verifier"):
        shutil.copy(str(folder / "verifier.pt"), str(folder / f"{name}.pt"))
    for name in ("verifier", "drafter", "blockwise", "early_exit"):
        (folder / "checkpoints" / name).mkdir(parents=True)
    shutil.copy(str(folder / "verifier.pt"), str(folder / "checkpoints" / "verifier.pt"))
    shutil.copy(str(folder / "other.pt"), str(folder / "checkpoints" / "small.pt"))
    best = "checkpoint_best.pt"
    save_checkpoint(folder / "checkpoints" / "verifier" / best, toy_model("pre_norm", updates=100))
    shutil.copy(str(folder / "drafter.pt"), str(folder / "checkpoints" / "drafter" / best))
    heads = toy_blockwise(folder / "checkpoints", updates=40, block_size=4, freeze_base=True)
    save_blockwise(folder / "checkpoints" / "blockwise" / best, heads)
    save_early_exit(folder / "checkpoints" / "early_exit" / best, toy_early_exit(updates=60))
    torch.save(
        authors_checkpoint(authors_drafter(updates=20), data="data"),
        str(folder / "authors_drafter.pt"),
    )


def make_published(folder, run):
    """Toys under the names of the published models that a page decodes, trained by the same tasks
    with the same flags, and their data."""
    words = (folder / "dict.txt").read_text(encoding="utf-8")
    tags = "".join(f"{tag} 1\n" for tag in ("__eng_Latn__", "__deu_Latn__", "<MINED_DATA>"))
    for name, text in {
        "model_dict.128k.txt": words,
        "nllb.dict.txt": words + tags,
        "ML50_langs.txt": "en_XX\nde_DE\n",
        "nllb.langs.txt": "eng_Latn\ndeu_Latn\n",
        "language_pairs_small_models.txt": "de-fr\n",
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    for block in BLOCKS:
        if (block.page, block.language) == ("docs/models.md", "bash"):
            for command in commands_in(block.text):
                if command.words[0] == "fairseq-generate" and "--source-lang" in command.words:
                    make_one_published(folder, command.words, run)


def make_one_published(folder, words, run):
    """The data and the model of one ``fairseq-generate`` command."""
    data, flags = words[1], dict(zip(words, words[1:]))
    pair = {side: flags[f"--{name}-lang"] for side, name in (("en", "source"), ("de", "target"))}
    for split in SIZES:
        for side, language in pair.items():
            text = folder / "corpus" / f"{split}.bpe.{side}"
            shutil.copy(str(text), str(folder / "corpus" / f"{split}.{language}"))
    prefixes = " ".join(f"--{split}pref corpus/{split}" for split in SIZES)
    task = flags["--task"][: -len("_specdec")]
    kept = [word for name in OF_TRAINING if name in flags for word in (name, flags[name])]
    kept += ["--decoder-langtok"] * ("--decoder-langtok" in words)
    run(
        f"fairseq-preprocess -s {pair['en']} -t {pair['de']} --srcdict dict.txt --tgtdict dict.txt "
        f"--workers 1 {prefixes} --destdir {data}\n"
        f"fairseq-train {data} --user-dir fairseq_specdec --task {task} "
        f"--arch {ARCHITECTURES[task]} {SHAPE} --share-all-embeddings {shlex.join(kept)} "
        f"--optimizer adam --lr 4e-3 --batch-size 32 --max-update 8 {BRIEF} "
        "--disable-validation --no-epoch-checkpoints --save-dir made"
    )
    path = folder / flags["--path"]
    path.parent.mkdir(parents=True, exist_ok=True)
    (folder / "made" / "checkpoint_last.pt").rename(path)


def make_languages(folder, run):
    """The corpus of three languages, and a verifier of both pairs."""

    def command(name, *words):
        run(shlex.join([f"fairseq-{name}", *map(str, words)]))

    corpus, model = folder / "languages", folder / "m2m"
    for made in (corpus, model):
        made.mkdir()
    name = key("languages", files=[families_toys.__file__])
    cached_folder(corpus, name, lambda to: families_toys.write_corpus(to, command))
    (corpus / "bin").rename(folder / "data-bin" / "languages")
    trained = families_toys.train_family("m2m", folder / "data-bin" / "languages", model)
    for path in ("multilingual.pt", "checkpoints/checkpoint_best.pt"):
        shutil.copy(str(trained.path), str(folder / path))


def make_files(folder):
    """The other files that pages read."""
    (folder / "codes").write_text("#version: 0.2\nw 1\n", encoding="utf-8")
    (folder / "clean.txt").write_text("we open the file\n" * 20, encoding="utf-8")
    (folder / "confusions.txt").write_text("open\topens\nfile\tfiles\tfill\n", encoding="utf-8")
    (folder / "gold.m2").write_text("S a b c\nA 1 2|||R|||d|||REQUIRED|||-NONE-|||0\n\n")
    (folder / "output.txt").write_text("a d c\n", encoding="utf-8")
    texts = [text_of(line) for line in sentences(4, seed=7)]
    pair = {"drafter": str(folder / "drafter.pt"), "data": str(folder / "data-bin" / "corpus")}
    for name, strategy in (("trace", "gad++"), ("gad", "gad"), ("greedy", "greedy")):
        given = dict(pair, drafter=None) if strategy == "greedy" else pair
        translator = SpeculativeTranslator.from_pretrained(
            str(folder / "verifier.pt"), strategy=strategy, device="cpu", tokenizer=None, bpe=None,
            **given,
        )  # fmt: skip
        traces = [result.trace for result in translator.translate(texts, return_trace=True)]
        write_traces(str(folder / f"{name}.jsonl"), traces)


class Sandbox:
    """The folder, and how a page's blocks run in a copy of it."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.warm = WarmPython()
        self.programs = self.warm.programs
        for name, words in SLOW_PROGRAMS.items():
            write_program(self.programs / name, sys.executable, *words)
        folder.mkdir()
        for name in SHARED:
            (folder / name).symlink_to(ROOT / name)
        (folder / "data-bin").mkdir()
        for name, languages in DEMOS.items():
            make_demo(name, languages, folder / "data-bin" / name)
        make_corpus(folder, lambda text: self.check(text, folder))
        make_models(folder)
        make_languages(folder, lambda text: self.check(text, folder))
        make_published(folder, lambda text: self.check(text, folder))
        make_files(folder)

    def has_demos(self):
        return all((self.folder / "data-bin" / name).is_dir() for name in DEMOS)

    def environment(self, folder):
        """For programs in a folder: its package, one thread, no GPU, no cluster."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in ("RANK", "WORLD_SIZE") and not name.startswith("SLURM")
        }
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}"
        single = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        return dict(kept, PATH=path, PYTHONPATH=str(folder), **single)

    def close(self):
        self.warm.close()

    def check(self, script, folder, words=("bash", "-euo", "pipefail", "-c")):
        """Run a script in a folder; its output."""
        done = subprocess.run(
            [*words, script], cwd=str(folder), env=self.environment(folder),
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, f"{script}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    def copy(self, folder, text):
        """A copy to run a script in, without what the script makes itself."""
        shutil.copytree(str(self.folder), str(folder), symlinks=True)
        for made in re.findall(r"--(?:dest|destdir|save-dir) ([^\s\"]+)", text):
            shutil.rmtree(str(folder / made), ignore_errors=True)
        return folder
