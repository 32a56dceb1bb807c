"""Synthetic errors for pretraining grammatical error correction (Grundkiewicz et al. 2019)."""
