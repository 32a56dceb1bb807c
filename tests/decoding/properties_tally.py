"""What the property tests have tried: counts for the summary at the end of a run."""

import collections

TALLY = collections.Counter()
