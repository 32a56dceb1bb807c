"""Super-resolution of small pictures with blockwise decoding (Stern et al. 2018, section 7.2)."""

import importlib.util
import pathlib

from launch import Devices
from models import corpus_files, decode, train_model
from prepare import SPLITS, binarise
from recipe import REPO, StepError
from step import Step

PAIR = ("low", "high")


def corpus(step: Step) -> list[pathlib.Path]:
    """What training reads."""
    return corpus_files(step["BIN"], *PAIR)


def heads(step: Step) -> list[str]:
    """The numbers of heads; 1 is the base model alone."""
    return [k for k in step.settings.words("KS") if k != "1"]


def pictures(step: Step) -> None:
    """An action: small pictures as sequences of pixels. A work folder belongs to one size."""
    step.need("fairseq-preprocess")
    if not step.dry and importlib.util.find_spec("skimage") is None:
        raise StepError(
            f"scikit-image not found: run 'pip install -r "
            f"{REPO}/scripts/requirements/superresolution.txt' in the environment of {step.python}"
        )
    out = step.path("OUT")
    text, record = out / "text", out / "images.json"
    if step.finished(record, []):
        return
    step.make(out)
    names = ("SIDE", "FACTOR", "PATCHES", "TEST", "SEED")
    step.call("superresolution.images.write", text, *map(step.settings.number, names))
    prefixes = {split: text / split for split in SPLITS}
    joint = ("--joined-dictionary", "--srcdict", text / "dict.txt")
    log = out / "preprocess.log"
    binarise(step, step.path("BIN"), PAIR, prefixes, *joint, log=log, workers="1")
    step.record(record, [], step["BIN"], text)


def train_base(step: Step) -> None:
    """An action: the base model, pixel after pixel."""
    step.need("fairseq-train")
    output = step.path("OUT") / "base" / "model.pt"
    inputs, record = corpus(step), output.parent / "provenance.json"
    if step.finished(record, inputs):
        return
    width, most = step.settings.number("WIDTH"), pixels(step) + 2
    shape = ["--max-source-positions", most, "--max-target-positions", most]
    for side in ("encoder", "decoder"):
        parts = {"layers": step["LAYERS"], "embed-dim": width, "ffn-embed-dim": 2 * width}
        parts["attention-heads"] = 4
        shape += [word for name, part in parts.items() for word in (f"--{side}-{name}", part)]
        shape.append(f"--{side}-normalize-before")
    train_model(
        step, Devices(step), step["BIN"], PAIR, output, step.settings.number("BASE_UPDATES"),
        "--arch", "transformer", *shape, "--share-all-embeddings", "--criterion", "cross_entropy",
        "--lr", "1e-3", "--max-tokens", step["TOKENS"],
    )  # fmt: skip
    step.record(record, inputs, output)


def train_heads(step: Step) -> None:
    """An action: k heads on the base model, for each k (section 6.1).

    The base is tuned from where its heads were left, gently: with heads that know nothing yet, at
    1e-3, pictures lost 1 to 8 dB.
    """
    step.need("fairseq-train")
    out, devices = step.path("OUT"), Devices(step)
    base = out / "base" / "model.pt"
    inputs = [*corpus(step), base]
    for k, way in ((k, way) for k in heads(step) for way in ("frozen", "tuned")):
        step.commands = []
        output = out / "heads" / f"{way}_{k}" / "model.pt"
        if step.finished(output.parent / "provenance.json", inputs):
            continue
        updates, rate, own = step.settings.number("HEAD_UPDATES"), "1e-3", ["--freeze-base"]
        if way == "tuned":
            updates, rate = step.settings.number("TUNED_UPDATES"), step["TUNED_LR"]
            own = ["--finetune-from-model", f"{out}/heads/frozen_{k}/model.pt"]
        step.log(f"k = {k}, base {way}")
        train_model(
            step, devices, step["BIN"], PAIR, output, updates, "--arch", "blockwise_transformer",
            "--block-size", k, "--first-head", step["FIRST_HEAD"], "--init-from", base, *own,
            "--criterion", "blockwise_loss", "--label-smoothing", "0", "--lr", rate,
            "--max-tokens", step["TOKENS"],
        )  # fmt: skip
        step.record(output.parent / "provenance.json", inputs, output)


def pixels(step: Step) -> int:
    """Pixels of a large picture."""
    return step.settings.number("SIDE") ** 2


def decode_all(step: Step) -> None:
    """An action: decode the test faces exactly and approximately; Table 2."""
    step.need("fairseq-generate")
    out, base = step.path("OUT"), step.path("OUT") / "base" / "model.pt"
    models = {(way, k): out / "heads" / f"{way}_{k}" / "model.pt"
              for k in heads(step) for way in ("frozen", "tuned")}  # fmt: skip
    inputs = [base, step.path("BIN") / "test.low-high.low.bin", *models.values()]
    record, folder = out / "provenance.json", out / "decoded"
    if step.finished(record, inputs):
        return
    loose = ["--accept-epsilon", step["EPSILON"]]
    systems = [("regular_1", base, "--strategy", "greedy")]
    for (way, k), model in models.items():
        exact, near = ("fine_tuned", "both") if way == "tuned" else ("regular", "approximate")
        systems.append((f"{exact}_{k}", model, "--strategy", "blockwise"))
        systems.append((f"{near}_{k}", model, "--strategy", "blockwise", *loose))
    # A picture has exactly so many pixels.
    length = ["--max-len-a", "0", "--max-len-b", pixels(step), "--min-len", pixels(step)]
    device = ["--cpu"] if Devices(step).cpu else []
    shared = {"corpus": step["BIN"], "pair": PAIR, "folder": folder, "device": device}
    for system in systems:
        decode(step, *system, *length, **shared)
    step.call("superresolution.results.write", folder, out / "table")
    step.record(record, inputs, folder, out / "table.json")
