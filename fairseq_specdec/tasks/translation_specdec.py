"""``--task translation_specdec``: fairseq's translation task with draft-then-verify decoding."""

from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationTask

from fairseq_specdec.config import TranslationSpecDecConfig
from fairseq_specdec.families import SpecDecMixin


@register_task("translation_specdec", dataclass=TranslationSpecDecConfig)
class TranslationSpecDecTask(SpecDecMixin, TranslationTask):
    """Translation whose ``build_generator`` returns this project's generator."""
