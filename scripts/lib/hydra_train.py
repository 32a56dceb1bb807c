"""``fairseq-hydra-train`` with this project's mends from the start, for torchrun without a GPU.

fairseq reads ``common.user_dir`` only after it has set up the processes that train together.
"""

from fairseq_cli.hydra_train import cli_main

import fairseq_specdec.tasks  # noqa: F401  (its import applies the patches)

if __name__ == "__main__":
    cli_main()
