"""What the load tests measured, for the summary at the end of a run."""

LOAD = []
