"""How a drafter is trained: cuts and blocks, glancing, the loss, and weights taken from a verifier."""
