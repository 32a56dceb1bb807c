"""What the property tests have tried, for the summary at the end of a run."""


class Tally:
    """Counts; ``seed`` and ``started`` are the nightly run's, None in the common one."""

    def __init__(self):
        self.numbers, self.undiverse, self.cases = set(), set(), set()
        self.decodings = self.sentences = self.tokens = self.ties = self.refused = 0
        self.drafters, self.beams, self.backends = {}, {}, {}
        self.seed = self.started = None

    @property
    def models(self):
        return len(self.numbers)

    def add(self, number, case, drafter, beam, rows, tokens, ties, diverse):
        """A batch was compared."""
        self.numbers.add(number)
        if not diverse:
            self.undiverse.add(number)
        self.cases.add((number, case))
        for counts, key in (
            (self.drafters, drafter),
            (self.beams, beam),
            (self.backends, case.backend),
        ):
            counts[key] = counts.get(key, 0) + 1
        self.decodings += 1
        self.sentences += rows
        self.tokens += tokens
        self.ties += ties

    def lines(self):
        """For people; nothing when nothing was tried."""
        if not self.decodings:
            return []
        seed = "" if self.seed is None else f", SPECDEC_NIGHTLY_SEED={self.seed}"
        return [
            f"exactness: {self.models} models ({len(self.undiverse)} of them with outputs that "
            f"repeat), {len(self.cases)} configurations, {self.decodings} batches, "
            f"{self.sentences} sentences, {self.tokens} tokens; {self.ties} sentences parted at a "
            f"tie, {self.refused} batches that stock dies of were refused{seed}",
            *(
                f"batches by {what}: "
                + ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
                for what, counts in (
                    ("drafter", self.drafters),
                    ("beam", self.beams),
                    ("backend", self.backends),
                )
            ),
        ]


TALLY = Tally()
