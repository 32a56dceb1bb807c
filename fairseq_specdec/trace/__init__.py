"""What every iteration drafted and what the verifier made of it: recorded, read, shown."""

from fairseq_specdec.decoding.iteration import VERDICTS, TracedIteration, verdicts

from .files import TraceFile, read_traces, write_traces
from .record import Trace, TraceError

__all__ = [
    "VERDICTS",
    "Trace",
    "TraceError",
    "TraceFile",
    "TracedIteration",
    "read_traces",
    "verdicts",
    "write_traces",
]
