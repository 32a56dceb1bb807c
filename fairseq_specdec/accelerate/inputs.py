"""What is accelerated, checked and read: the verifier, its drafter's shape, its data, raw text."""

import argparse
import glob
import os
import re
import shutil
from collections.abc import Sequence
from itertools import product
from typing import Any

import torch
from fairseq.data import Dictionary, data_utils
from fairseq.models.transformer import TransformerConfig

from fairseq_specdec.errors import MissingFileError, UsageError

from ..checkpoints.content import get_setting, read_state, settings_of
from ..checkpoints.verifier import placeholders
from ..data.folder import splits
from ..decoding.builder import check_verifier
from ..drafting.vocabulary import vocabulary_for
from ..families.own_flags import task_of
from ..families.subwords import marked
from ..hub.cli import model_named, verifier_of
from ..hub.converted import Described, codec_of, describe
from ..hub.loading import find
from ..io.atomic import replacing
from ..training.initialisation import load_verifier
from . import commands
from .commands import Job, State, here
from .steps import lines_of, logger, run

# Flags that are the same in every run into one folder.
KEPT = (
    "data", "path", "beam", "limit", "trainpref", "validpref", "max_tokens", "lang_pairs",
    "source_lang", "target_lang",
)  # fmt: skip
# Settings of a verifier that its drafter has too, and of the decoder's side.
SHARED = (
    "activation_fn max_source_positions max_target_positions layernorm_embedding no_scale_embedding"
    " no_token_positional_embeddings"
)
OF_SIDE = "embed_dim ffn_embed_dim attention_heads normalize_before learned_pos"
MOST_UNKNOWN = 10.0  # percent of the words of a text in the verifier's subwords


# ---- the verifier --------------------------------------------------------------------------------


def find_model(args: argparse.Namespace) -> dict[str, Any]:
    """The content of the verifier's checkpoint. Sets ``path`` and ``data``: of MODEL, or of DATA
    --path MODEL."""
    if args.path is None and args.model is None:
        raise UsageError("MODEL", "missing", "name a checkpoint, or a folder with verifier.pt")
    verifier, data = verifier_of(args)
    with model_named(args):
        place = find(verifier, None, data)
    if len(place.verifiers) > 1:
        raise UsageError(f"--path {verifier}", "a drafter is trained for one model", "name one")
    args.path = place.verifiers[0]
    state = read_state("--path", args.path)
    if "decoder.mask_embedding" in state["model"]:
        raise UsageError("--path", f"{args.path} is a drafter", "name the model to speed up")
    if "encoder.embed_tokens.weight" not in state["model"]:
        remedy = "drafters of this kind read one. Use --strategy iad or sps for a language model"
        raise UsageError("--path", f"{args.path} holds no encoder of text", remedy)
    trained = str(get_setting(settings_of(state, "task"), "data") or "").split(os.pathsep)[0]
    folders = [place.data] if place.data else [os.path.dirname(os.path.abspath(args.path)), trained]
    with_words = (each for each in folders if glob.glob(os.path.join(glob.escape(each), "dict.*")))
    args.data = next(with_words, folders[0])
    return state


def descriptions(args: argparse.Namespace) -> list[Described]:
    """One for each pair that is asked for; [] of a verifier that was not converted. Raises
    UsageError: a language that the model lacks, with those near to it."""
    asked = [(args.source_lang, args.target_lang)]
    if args.lang_pairs is not None:
        asked = [pair.partition("-")[::2] for pair in args.lang_pairs.split(",")]
        if not all(target for _, target in asked):
            raise UsageError(f"--lang-pairs {args.lang_pairs}", "expected SOURCE-TARGET,...")
    found = (describe([args.path], *pair) for pair in asked)
    return [each for each in found if each is not None]


def fit(job: Job, words: Sequence[Any], languages: bool) -> None:
    """Choose the drafter for the verifier.

    A verifier as wide in its encoder as in its decoder gets an attached drafter of 2 layers with a
    chain, which reads its states; any other gets the papers' drafter, 12+2 layers. ``languages``:
    of a verifier with language tokens, whose vocabulary is large: the drafter reads its tables.
    """
    model = load_verifier("--path", job.path, *words)
    check_verifier(model, f"--path: {job.path}")
    cfg = TransformerConfig.from_namespace(model.encoder.cfg)
    job.layers = len(model.decoder.layers)
    job.lists = job.cpu and vocabulary_for(None, None, model, None, words[1]) is not None
    tables = "share_all_embeddings" if cfg.share_all_embeddings else (
        "share_decoder_input_output_embed"
    )  # fmt: skip
    flags = [*_flags(cfg, f"{SHARED} {tables}"), *_flags(cfg.decoder, OF_SIDE, "--decoder-")]
    if cfg.encoder.embed_dim == cfg.decoder.embed_dim:
        job.described = "2 layers that read the verifier's states, with a chain"
        job.drafter = [
            "--arch", "attached_drafter_base", *flags,
            *_flags(cfg.encoder, "embed_dim", "--encoder-"), "--attach-to", job.path,
            "--init-decoder-from", job.path, "--soft-targets", "0.5",
            "--init-decoder-layers", f"0,{job.layers - 1}",
            "--chain-width", str(min(512, cfg.decoder.embed_dim)),
            *["--verifier-embeddings"] * languages,
        ]  # fmt: skip
    else:
        job.described = "a model of its own, 12+2 layers"
        flags += _flags(cfg.decoder, OF_SIDE, "--encoder-")
        job.drafter = ["--arch", "spec_drafter_base", *flags, "--source-copy"]


def _flags(cfg: Any, names: str, prefix: str = "--") -> list[str]:
    """Settings as flags; a switch that is off is left out."""
    words: list[str] = []
    for name in names.split():
        value, flag = getattr(cfg, name), prefix + name.replace("_", "-")
        text = str(getattr(value, "value", value))
        words += [flag] * value if isinstance(value, bool) else [flag, text]
    return words


# ---- the data ------------------------------------------------------------------------------------


def prepare(args: argparse.Namespace) -> Job:
    """Check what can be checked at once; raw text is binarised."""
    verifier = find_model(args)
    described = descriptions(args)
    if described and args.lang_pairs is None:
        args.source_lang, args.target_lang = described[0].languages
    languages = args.source_lang, args.target_lang
    asked = None if None in languages else "-".join(languages)
    task, pairs = task_of(verifier, args.lang_pairs, asked)
    raw = args.trainpref is not None
    if raw and asked is None and not pairs:
        raise UsageError("--trainpref", "name the languages with --source-lang and --target-lang")
    if raw and pairs and not described:
        raise UsageError("--trainpref", "binarise the text of all pairs with fairseq-preprocess")
    if described and not raw:
        remedy = "name plain text of the source language"
        raise UsageError("--trainpref and --validpref", "missing", remedy)
    if not raw:
        _check_data(args, pairs)
    asked = asked or "-".join(map(str, data_utils.infer_language_pair(args.data)))
    out = here(args.out)
    state = State(args.out, {name: getattr(args, name) for name in KEPT})
    cpu = args.cpu or not torch.cuda.is_available()
    args.max_tokens = args.max_tokens or (1800 if cpu else 8192)
    job = Job(
        args, state, os.path.join(out, "binarised") if raw else here(args.data), here(args.path),
        out, pairs or [asked], cpu, task, bool(pairs),
    )  # fmt: skip
    if described:
        job.converted, job.generation = described[0].folder, described[0].command_flags
    if raw and not state.done("binarise"):
        binarise(job, described)
        state.note("binarise")
    words = [
        Dictionary.load(os.path.join(job.data, f"dict.{side}.txt"))
        for side in job.pairs[0].split("-", 1)
    ]
    marks = None if described else marked(words[1].symbols)
    job.subwords = marks[0] if marks else None
    job.one_dictionary = not task and words[0].symbols == words[1].symbols
    # fairseq adds language tokens to dictionaries
    fit(job, placeholders(verifier["model"]) if task else words, bool(task))
    return job


def _check_data(args: argparse.Namespace, pairs: Sequence[str]) -> None:
    """Refuse data that were not binarised, or lack a pair."""
    for pair, split in product(pairs or ["*-*"], ("train", "valid")):
        if split not in splits(args.data, pair):
            problem = f"has no split {split}{f' of {pair}' if pairs else ''}"
            remedy = "binarise train and valid with fairseq-preprocess --trainpref and --validpref"
            remedy += ", or name other pairs with --lang-pairs" if pairs else ""
            raise UsageError(args.data, problem, remedy)


def binarise(job: Job, described: Sequence[Described]) -> None:
    """Run fairseq-preprocess on --trainpref and --validpref. Where these have sources alone, the
    verifier translates those of valid; the distillation does it with those of train. The text of a
    converted model (``described``) is plain; sources alone are read."""
    data, prefixes = job.args.data, [job.args.trainpref, job.args.validpref]
    sides = job.pairs[0].split("-", 1)
    alone = bool(described) or not any(os.path.isfile(f"{each}.{sides[1]}") for each in prefixes)
    if alone:
        sides = list(dict.fromkeys(pair.partition("-")[0] for pair in job.pairs))
    for prefix, side in product(prefixes, sides):
        if not os.path.isfile(f"{prefix}.{side}"):
            remedy = "--trainpref and --validpref name texts without their language, one sentence "
            remedy += "a line; --data is the folder of the verifier's dict.*.txt"
            raise MissingFileError(f"{prefix}.{side}", "no such file", remedy)
    if described:
        prefixes = _split_texts(job, described, prefixes)
    dest = job.file("sources") if alone else job.data
    for pair in job.pairs:
        names = [os.path.join(data, f"dict.{side}.txt") for side in pair.split("-", 1)]
        words = [
            commands.PYTHON, "-m", "fairseq_cli.preprocess", *commands.languages(pair),
            "--srcdict", names[0], "--tgtdict", names[1], "--trainpref", prefixes[0],
            "--validpref", prefixes[1], "--destdir", dest, "--workers", str(job.args.threads),
            *["--only-source"] * alone,
        ]  # fmt: skip
        run(job, words, "binarise.log")
        if alone:
            shutil.copy(names[1], dest)
    log = "\n".join(lines_of(job, "binarise.log"))
    shares = re.findall(r"(\S+)% replaced", log)[-2 * len(sides) :]
    unknown = max(map(float, shares), default=0.0)
    if not described and unknown > MOST_UNKNOWN:
        problem = f"{unknown:.0f}% of a text are words that the verifier's dictionary lacks"
        remedy = "split it with the verifier's subword model first"
        raise UsageError("--trainpref and --validpref", problem, remedy)
    if alone:
        logger.info("binarise: the verifier translates the sentences of %s", job.args.validpref)
        words = commands.distill(job, dest, job.data, None, shared=False)
        run(job, [*words, "--gen-subset", "valid"], "distil.log")


def _split_texts(job: Job, described: Sequence[Described], prefixes: Sequence[str]) -> list[str]:
    """Split plain text of the source languages into the model's pieces, below ``--out``. Returns
    the prefixes of what was written."""
    made = [job.file("pieces", "train"), job.file("pieces", "valid")]
    for language, each in {each.languages[0]: each for each in described}.items():
        codec = codec_of(each)
        for prefix, to in zip(prefixes, made):
            text, pieces = f"{prefix}.{language}", f"{to}.{language}"
            logger.info("binarise: splitting %s into pieces", text)
            with (
                open(text, encoding="utf-8", errors="replace") as whole,
                replacing(pieces, make_folder=True) as out,
            ):
                out.writelines(f"{each}\n" for each in map(codec.prepared, whole) if each)
            if os.path.getsize(pieces) == 0:
                raise UsageError(text, "holds no text", "give one sentence a line")
    return made
