"""The process that is measured: ``specdec-serve``.

``python -m fairseq_specdec.serve.bench.served ENGINE [flags of specdec-serve]``
"""

import sys

from ..cli import serve

OURS = "engine"

if __name__ == "__main__":
    serve(sys.argv[2:])
