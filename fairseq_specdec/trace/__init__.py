"""What every iteration drafted and what the verifier made of it: recorded, read, shown."""

from fairseq_specdec.decoding.iteration import VERDICTS, TracedIteration, verdicts

from .record import Trace, read_traces, write_traces

__all__ = ["VERDICTS", "Trace", "TracedIteration", "read_traces", "verdicts", "write_traces"]
