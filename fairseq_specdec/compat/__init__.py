"""Patches of fairseq, torch and numpy, applied at import.

``--user-dir`` imports the package before configs are converted and before any checkpoint is read,
so every fairseq command runs with the patches. There is one function for each fault. It applies
only where the fault exists (wherever possible it checks the installed library, not a version), and
applying it twice changes nothing.
"""

from .activations import run_swish
from .architectures import build_known_architectures_from_checkpoints
from .attention import math_attention_for_bf16_on_cpu
from .batching import keep_last_batch
from .better_transformer import strip_better_transformer
from .checkpoints import allow_checkpoint_types, check_checkpoints
from .decoding_memory import load_decoding_models_in_little_memory
from .distributed import ddp_without_devices, torchrun_without_gpu
from .hub_task import take_tasks_of_the_hub
from .hydra_folder import say_where_hydra_saves
from .interpolations import refuse_interpolations_of_checkpoints
from .literals import parse_settings_as_literals
from .misfits import name_misfits
from .ngrams import block_ngrams_on_cpu
from .parser_errors import refuse_flags_in_one_line
from .stripped import read_stripped_checkpoints
from .subword_files import read_subword_files
from .task_faults import give_mbart_its_args, take_the_hubs_arguments
from .tpu import bf16_without_tpu
from .training_formats import name_formats_without_gpu
from .truncated import name_unreadable_checkpoints
from .truncated_data import name_truncated_data
from .user_dir import know_own_folder

FIXES = (
    know_own_folder,
    refuse_flags_in_one_line,
    keep_last_batch,
    strip_better_transformer,
    allow_checkpoint_types,
    check_checkpoints,
    torchrun_without_gpu,
    ddp_without_devices,
    bf16_without_tpu,
    name_formats_without_gpu,
    say_where_hydra_saves,
    math_attention_for_bf16_on_cpu,
    block_ngrams_on_cpu,
    run_swish,
    refuse_interpolations_of_checkpoints,
    name_unreadable_checkpoints,
    name_misfits,
    name_truncated_data,
    read_stripped_checkpoints,
    read_subword_files,
    parse_settings_as_literals,
    build_known_architectures_from_checkpoints,
    load_decoding_models_in_little_memory,
    take_tasks_of_the_hub,
    give_mbart_its_args,
    take_the_hubs_arguments,
)


def apply() -> None:
    """Patch every fault of the installed libraries; a second call changes nothing."""
    for fix in FIXES:
        fix()


__all__ = ["FIXES", "apply"] + [fix.__name__ for fix in FIXES]
