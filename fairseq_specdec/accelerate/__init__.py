"""``specdec-accelerate``: from a verifier and its data to a drafter, its figures and a report."""
