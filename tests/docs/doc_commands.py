"""Which commands the pages may show, how each is parsed, and which are run elsewhere."""

import argparse
import functools
import re
import shlex

from doc_pages import commands_in
from fairseq import options

from fairseq_specdec.accelerate import cli as accelerate
from fairseq_specdec.bench import session
from fairseq_specdec.conversion import cli as convert
from fairseq_specdec.data import distill, edits, shortlist
from fairseq_specdec.environment import cli as environment_cli
from fairseq_specdec.hub import cli as translate_cli
from fairseq_specdec.serve import cli as serve_cli
from fairseq_specdec.trace import cli as trace_cli

PARSERS = {
    "fairseq-preprocess": options.get_preprocessing_parser,
    "fairseq-train": options.get_training_parser,
    "fairseq-generate": options.get_generation_parser,
    "fairseq-interactive": options.get_interactive_generation_parser,
    "specdec-accelerate": accelerate.get_parser,
    "specdec-convert": convert.get_parser,
    "specdec-demo": serve_cli.get_parser,
    "specdec-distill": distill.get_parser,
    "specdec-bench": session.get_parser,
    "specdec-edits": edits.get_parser,
    "specdec-env": environment_cli.get_parser,
    "specdec-serve": serve_cli.get_parser,
    "specdec-shortlist": shortlist.get_parser,
    "specdec-trace": trace_cli.get_parser,
    "specdec-translate": translate_cli.get_parser,
}
# Programs whose flags are argparse's alone, not fairseq's.
PLAIN = {
    "fairseq-preprocess", "specdec-accelerate", "specdec-convert", "specdec-demo", "specdec-edits",
    "specdec-env",
    "specdec-serve", "specdec-shortlist", "specdec-trace", "specdec-translate",
}  # fmt: skip
MODULES = {
    "fairseq_specdec.data.distill": "specdec-distill",
    "fairseq_specdec.data.edits": "specdec-edits",
    "fairseq_specdec.data.shortlist": "specdec-shortlist",
}
# What a block may use besides: it is run, not parsed.
TOOLS = {"cat", "cut", "diff", "echo", "fairseq-hydra-train", "grep", "head"}
TOOLS |= {"python", "sacremoses", "subword-nmt", "for", "do", "done"}
# Commands that a test cannot run as they stand, by their beginning, and the file that runs them.
ELSEWHERE = {
    "bash scripts/quickstart.sh": "tests/docs/test_docs_run.py",  # what it measures
    "bash scripts/test.sh": ".ci/run",
    "python -m pytest": "scripts/test.sh",
    "fairseq-generate MUSTC/": "tests/tasks/test_speech_cli.py",
    "fairseq-train MUSTC/": "tests/tasks/test_speech_cli.py",
    "python benchmarks/replay.py": "tests/benchmarks/test_replay.py",
    "python scripts/lib/gec_scores.py": "tests/scripts/test_gec_scores.py",
    "specdec-accelerate data-bin/corpus": "tests/accelerate/test_accelerate.py",
    "specdec-accelerate data-bin/languages": "tests/tasks/test_families_accelerate.py",
    "specdec-accelerate nllb": "tests/accelerate/test_converted.py",
    "specdec-bench demo_ende": "tests/bench/test_bench_converted.py",
    "specdec-bench nllb": "tests/bench/test_bench_converted.py",
    "specdec-convert hf": "tests/conversion/test_hf_fixtures.py",
    "scripts/run --list": "tests/scripts/test_runner.py",
    "scripts/run wmt14_ende": "tests/scripts/test_translation_recipes.py",
}
# Flags of programs that are not this project's: pip, torchrun, Slurm, hydra, the authors' code.
FOREIGN = {
    "--print-completion", "--index-url", "--extra-index-url", "--find-links", "--rm",
    "--build-arg", "--gpus",
    "--no-build-isolation", "--no-deps", "--head", "--address", "--standalone", "--nproc_per_node",
    "--array", "--wrap",
    "--config-dir", "--config-name", "--model", "--src-embedding-copy", "--shell",
    "--isa", "--memory", "--peers", "--plots",  # benchmarks/peers.py
    "--csv", "--expected", "--headless", "--per-second", "--run-time", "--texts", "--users",
    # of decoders that no command here trains, or not in every fairseq
    "--decoder-input-dim", "--merge-src-tgt-embed", "--scale-attn", "--scale-fc",
    "--scale-heads", "--scale-resids", "--conv-version", "--load-pretrained-encoder-from",
}  # fmt: skip
FLAG = re.compile(r"(?<![\w-])--[a-z](?:[\w-]*\w)?(?![\w…-])")


def unwrapped(words):
    """A command without its launcher (Slurm, torchrun, python -m)."""
    if words[0] == "sbatch":
        return tuple(shlex.split(words[words.index("--wrap") + 1]))
    if words[0] in ("torchrun", "python") and "-m" in words:
        start = words.index("-m")
        program = MODULES.get(words[start + 1])
        return words if program is None else (program, *words[start + 2 :])
    return words


def place_of(words):
    """The file that runs a command of ``ELSEWHERE``, or None."""
    line = " ".join(words)
    return next((place for start, place in ELSEWHERE.items() if line.startswith(start)), None)


def coverage(text):
    """``run`` for a script that the sandbox runs, ``elsewhere`` for one that something else does.

    Raises:
        AssertionError: neither, or a mixture; says which command.
    """
    reasons = set()
    for command in commands_in(text):
        program = unwrapped(command.words)[0]
        if place_of(command.words):
            reasons.add("elsewhere")
        elif program in PARSERS or program in TOOLS:
            reasons.add("run")
        else:
            raise AssertionError(f"no test runs or parses {' '.join(command.words)!r}: see PARSERS")
    assert len(reasons) == 1, f"some commands of a block are run, others are not: {text}"
    return reasons.pop()


@functools.cache
def flags_of(words):
    """Parse a command (a tuple) as its program does; return all flags that it may have."""
    parser = PARSERS[words[0]]()
    if words[0] in PLAIN:
        parser.parse_args(list(words[1:]))
    else:
        options.parse_args_and_arch(parser, input_args=list(words[1:]))
    nested = [a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    parsers = [parser, *(command for choices in nested for command in choices.values())]
    return frozenset(flag for one in parsers for flag in one._option_string_actions)


def known_flags(commands):
    """Every flag that some of these commands, or a program without a block, has."""
    scripts = {"--train", "--full", "--list", "--dry-run", "--metric", "--mean-accepted"}
    scripts |= {"--mean-copied", "--sentences", "--length", "--last"}
    return (scripts | FOREIGN).union(*map(flags_of, commands))
