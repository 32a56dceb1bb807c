"""Scores of fairseq-generate's output: tokenised BLEU, sacreBLEU, and COMET if asked for.

- ``bleu``: on tokens, subwords joined (what multi-bleu and fairseq-score give).
- ``bleu_compound``: the same with every hyphenated word split on both sides, as in papers that
  follow Vaswani et al. 2017; text tokenised with aggressive dashes is split already.
- ``sacrebleu``: detokenised output against the raw reference, with its signature.
- ``bleu_to_greedy``: tokenised, against stock greedy output of the same set (Xia et al. Table 6).
- ``comet``: of the model named by COMET; needs the package unbabel-comet.
"""

import importlib.util
import logging
import multiprocessing
import pathlib
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

from sacrebleu.metrics import BLEU
from sacremoses import MosesDetokenizer
from text_files import read_lines

from fairseq_specdec.bench.outputs import split_compounds
from fairseq_specdec.io.atomic import write_json

logger = logging.getLogger("translation_scores")
GREEDY = ".fairseq_beam_1.out"  # after the name of the set


class Output(NamedTuple):
    """What fairseq-generate wrote, by sentence id: tokens of output and reference, as text."""

    hypotheses: dict[int, str]
    references: dict[int, str]


def read_output(path: pathlib.Path) -> Output:
    """The H and T lines of a log of fairseq-generate."""
    output = Output({}, {})
    for kind, kept in zip("HT", output):
        text = path.read_text(encoding="utf-8")
        found = re.findall(rf"^{kind}-(\d+)\t(?:[^\t\n]*\t)?(.*)$", text, re.MULTILINE)
        kept.update((int(number), line) for number, line in found)
    if not output.hypotheses or output.hypotheses.keys() != output.references.keys():
        raise ValueError(f"{path}: holds no sentence, or not all; decode again")
    return output


def lines_of(lines: Sequence[str], numbers: Sequence[int], name: str) -> list[str]:
    """The lines of these sentences, in ascending order."""
    if len(lines) <= numbers[-1]:
        raise ValueError(f"{name} has no line {numbers[-1]}: it is not this test set's")
    return [lines[n] for n in numbers]


def write_each(
    outputs: Sequence[pathlib.Path],
    score: Callable[[pathlib.Path, Output], dict[str, Any]],
    json: pathlib.Path,
) -> None:
    """Score each output, and write all scores by its name."""
    by_name = {}
    for path in outputs:
        by_name[path.stem] = score(path, read_output(path))
        logger.info("%s: %s", path.stem, by_name[path.stem])
    write_json(json, by_name, make_folder=True)


def tokenised_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """BLEU of text that is tokenised already."""
    bleu = BLEU(tokenize="none", force=True)
    return float(bleu.corpus_score(list(hypotheses), [list(references)]).score)


def comet(name: str, sources: list[str], outputs: list[str], references: list[str]) -> float:
    """COMET, times 100 as the papers print it."""
    if importlib.util.find_spec("comet") is None:
        raise ValueError(
            "COMET: needs the package: pip install unbabel-comet (in an environment of its own, "
            "if it disagrees with fairseq)"
        )
    rows = [dict(src=s, mt=o, ref=r) for s, o, r in zip(sources, outputs, references)]
    # In a process of its own, which frees the GPU when it ends.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(predict, name, rows).result()


def predict(name: str, rows: list[dict[str, str]]) -> float:
    """COMET of these sources, outputs and references, times 100."""
    from comet import download_model, load_from_checkpoint

    model: Any = load_from_checkpoint(download_model(name))
    return 100 * float(model.predict(rows, batch_size=64).system_score)


def token_scores(output: Output, greedy: Output | None) -> dict[str, float]:
    """BLEU of tokens: to the references, with compounds split, and to the greedy output."""
    numbers = sorted(output.hypotheses)
    hypotheses, references = ([texts[n] for n in numbers] for texts in output)
    apart = ([split_compounds(text) for text in texts] for texts in (hypotheses, references))
    figures = {
        "bleu": tokenised_bleu(hypotheses, references),
        "bleu_compound": tokenised_bleu(*apart),
    }
    if greedy is not None:
        if set(greedy.hypotheses) != set(numbers):
            raise ValueError("the greedy output has other sentences; decode again")
        wanted = [greedy.hypotheses[n] for n in numbers]
        figures["bleu_to_greedy"] = tokenised_bleu(hypotheses, wanted)
    return figures


def scores(
    output: Output,
    raw: Sequence[pathlib.Path],
    language: str,
    comet_model: str = "",
    greedy: Output | None = None,
) -> dict[str, Any]:
    """All scores of one system.

    Args:
        output: of fairseq-generate.
        raw: raw source and reference, a sentence a line, in the order of the test set.
        greedy: the verifier's own greedy output of these sentences.
    """
    numbers = sorted(output.hypotheses)
    sources, wanted = (lines_of(read_lines(path), numbers, str(path)) for path in raw)
    detokenizer = MosesDetokenizer(language)
    plain = [detokenizer.detokenize(output.hypotheses[n].split()) for n in numbers]
    sacre = BLEU()
    figures: dict[str, Any] = {"sentences": len(numbers), **token_scores(output, greedy)}
    figures["sacrebleu"] = float(sacre.corpus_score(plain, [wanted]).score)
    figures["sacrebleu_signature"] = str(sacre.get_signature())
    if comet_model:
        figures["comet"] = comet(comet_model, sources, plain, wanted)
        figures["comet_model"] = comet_model
    return figures


def write(
    outputs: Sequence[pathlib.Path],
    raw: Sequence[pathlib.Path],
    language: str,
    comet_model: str,
    json: pathlib.Path,
) -> None:
    """Score outputs, called SET.SYSTEM.out, each against the greedy one of its set too."""

    def score(path: pathlib.Path, output: Output) -> dict[str, Any]:
        beside = path.with_name(path.stem.split(".")[0] + GREEDY)
        greedy = read_output(beside) if beside in outputs else None
        return scores(output, raw, language, comet_model, greedy)

    write_each(outputs, score, json)
