"""Scores of text: M2 and ERRANT of corrections, SARI of simplifications."""
