"""Scores of text: M2 of corrections."""
