"""How a drafter is trained: cuts and blocks, glancing, its loss, and a verifier's weights."""
