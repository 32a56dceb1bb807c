"""Command lines of training and distillation, which specdec-accelerate and the recipes share."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# Keep freed memory in the process: otherwise every update maps, zeroes and unmaps gigabytes.
ALLOCATION = {
    "MALLOC_MMAP_THRESHOLD_": "4000000000",
    "MALLOC_TRIM_THRESHOLD_": "20000000000",
    "MALLOC_TOP_PAD_": "268435456",
}


def flags(own: Iterable[Any], **defaults: Any) -> list[str]:
    """``own``, then ``--name value`` of each default whose flag it does not give."""
    words = [str(word) for word in own]
    given = set(words)
    for name, value in defaults.items():
        flag = "--" + name.replace("_", "-")
        if flag not in given:
            words += [flag, str(value)]
    return words


def training_flags(own: Sequence[Any], folder: Any, updates: int) -> list[str]:
    """Flags of every training; those in ``own`` come first and replace their like."""
    return flags(
        own, dropout="0.0", optimizer="adam", adam_betas="(0.9,0.98)", clip_norm="1.0",
        lr_scheduler="polynomial_decay", warmup_updates=updates // 10, total_num_update=updates,
        max_update=updates, save_dir=folder, save_interval_updates=(updates + 9) // 10,
        keep_interval_updates="1", validate_interval_updates=updates, log_format="simple",
        log_interval="20", num_workers="0",
    )  # fmt: skip


def one_pair(source: str, target: str, task: str = "translation_specdec") -> list[str]:
    """The task of one pair of languages, as flags."""
    return ["--task", task, "-s", source, "-t", target]


def distill_flags(
    own: Sequence[Any], plugin: str, teacher: Any, dest: Any, task: Sequence[str], beam: Any
) -> list[str]:
    """Flags of every distillation, less those of the device. ``task``: as in ``one_pair``."""
    words = [
        "--user-dir", plugin, "--path", teacher, "--dest", dest, *task,
        "--strategy", "greedy", "--beam", beam, *flags(own, max_len_a="1.5", max_len_b="20"),
    ]  # fmt: skip
    return list(map(str, words))


def words_of(flags: Mapping[str, Any]) -> list[str]:
    """Flags and their values, as the arguments of a command; those of None are left out."""
    given = [pair for pair in flags.items() if pair[1] is not None]
    return [str(word) for pair in given for word in pair]
