"""Patches of fairseq, torch and numpy, applied at import.

``--user-dir`` imports the package before configs are converted and before any checkpoint is read,
so every fairseq command runs with the patches. There is one function for each fault. It applies
only where the fault exists (wherever possible it checks the installed library, not a version), and
applying it twice changes nothing. Those of reading checkpoints are in ``checkpoints.patches``.
"""

from .activations import run_swish
from .batching import keep_last_batch
from .better_transformer import strip_better_transformer
from .bf16 import bf16_without_tpu, math_attention_for_bf16_on_cpu
from .data_files import check_data_files
from .distributed import ddp_without_devices, torchrun_without_gpu
from .hub_task import take_tasks_of_the_hub
from .literals import parse_settings_as_literals
from .ngrams import block_ngrams_on_cpu
from .subword_files import read_subword_files
from .task_faults import give_mbart_its_args, leave_languages_to_the_data, take_the_hubs_arguments
from .user_dir import know_own_folder

FIXES = (
    know_own_folder,
    keep_last_batch,
    strip_better_transformer,
    torchrun_without_gpu,
    ddp_without_devices,
    bf16_without_tpu,
    math_attention_for_bf16_on_cpu,
    block_ngrams_on_cpu,
    run_swish,
    check_data_files,
    read_subword_files,
    parse_settings_as_literals,
    take_tasks_of_the_hub,
    give_mbart_its_args,
    leave_languages_to_the_data,
    take_the_hubs_arguments,
)


def apply() -> None:
    """Patch every fault of the installed libraries; a second call changes nothing."""
    for fix in FIXES:
        fix()
