"""What every iteration drafted and what the verifier made of it: recorded, read, shown."""

from .files import TraceFile, read_traces, write_traces
from .record import VERDICTS, Trace, TracedIteration, TraceError, verdicts

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
