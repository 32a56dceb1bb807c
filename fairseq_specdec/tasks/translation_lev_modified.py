"""The task name that the authors' drafter checkpoints hold."""

from dataclasses import dataclass, field

from fairseq.tasks import register_task

from fairseq_specdec.config import TranslationSpecDecConfig

from .translation_specdec import TranslationSpecDecTask


@dataclass
class TranslationLevModifiedConfig(TranslationSpecDecConfig):
    """Flags of ``translation_specdec``, and those of the authors' training, which are ignored."""

    noise: str = field(default="block_mask", metadata={"help": "kept from training, ignored"})
    start_p: float = field(default=0.5, metadata={"help": "kept from training, ignored"})
    minus_p: float = field(default=0.2, metadata={"help": "kept from training, ignored"})
    total_up: int = field(default=300000, metadata={"help": "kept from training, ignored"})


@register_task("translation_lev_modified", dataclass=TranslationLevModifiedConfig)
class TranslationLevModifiedTask(TranslationSpecDecTask):
    """``translation_specdec`` under the name of the authors' training task, for decoding."""
