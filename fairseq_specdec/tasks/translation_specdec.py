"""``--task translation_specdec``, and fairseq's other tasks with draft-then-verify decoding."""

from dataclasses import dataclass, field

from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationTask

from fairseq_specdec.config import TranslationSpecDecConfig
from fairseq_specdec.families import SpecDecMixin, register_specdec


@register_task("translation_specdec", dataclass=TranslationSpecDecConfig)
class TranslationSpecDecTask(SpecDecMixin, TranslationTask):
    """Translation whose ``build_generator`` returns this project's generator."""


@dataclass
class TranslationLevModifiedConfig(TranslationSpecDecConfig):
    """Flags of ``translation_specdec``, and those of the authors' training, which are ignored."""

    noise: str = field(default="block_mask", metadata={"help": "kept from training, ignored"})
    start_p: float = field(default=0.5, metadata={"help": "kept from training, ignored"})
    minus_p: float = field(default=0.2, metadata={"help": "kept from training, ignored"})
    total_up: int = field(default=300000, metadata={"help": "kept from training, ignored"})


@register_task("translation_lev_modified", dataclass=TranslationLevModifiedConfig)
class TranslationLevModifiedTask(TranslationSpecDecTask):
    """``translation_specdec`` by the name that the authors' drafter checkpoints hold."""


for _name in (
    "multilingual_translation",
    "speech_to_text",
    "translation_from_pretrained_bart",
    "translation_multi_simple_epoch",
):
    register_specdec(_name)
