"""``--task translation_specdec``: fairseq's translation task with draft-then-verify decoding."""

from typing import Any

from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationTask

from fairseq_specdec.config import TranslationSpecDecConfig
from fairseq_specdec.data.folder import check_data
from fairseq_specdec.families import SpecDecMixin


@register_task("translation_specdec", dataclass=TranslationSpecDecConfig)
class TranslationSpecDecTask(SpecDecMixin, TranslationTask):
    """Translation whose ``build_generator`` returns this project's generator."""

    @classmethod
    def setup_task(cls, cfg: Any, **kwargs: Any) -> "TranslationSpecDecTask":
        """The task, its dictionaries loaded.

        Raises:
            ValueError: flags that contradict one another or the dictionaries, by name; before any
                model is loaded.
            FileNotFoundError: the data folder or a dictionary is missing.
        """
        cls.check_flags(cfg)
        check_data(cfg)
        task: TranslationSpecDecTask = super().setup_task(cfg, **kwargs)
        return task
