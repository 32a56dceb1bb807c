"""Drafter checkpoints between the layout of the authors of SpecDec and that of this project."""
