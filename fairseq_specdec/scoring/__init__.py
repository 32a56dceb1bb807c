"""Scores of text editing: max-match (M2) and ERRANT for grammar, SARI for simplification."""
