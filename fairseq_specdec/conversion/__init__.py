"""Drafters of the authors of SpecDec, models of transformers and packed weights, as this project
reads them."""

from typing import Any

# What fairseq needs in a checkpoint that no training resumes.
UNTRAINED: dict[str, Any] = {
    "optimizer_history": [
        {"num_updates": 0, "optimizer_name": "", "criterion_name": "", "lr_scheduler_state": {}}
    ],
    "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
    "task_state": {},
    "last_optimizer_state": None,
}
