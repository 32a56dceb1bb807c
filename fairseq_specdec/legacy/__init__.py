"""The layout of the checkpoints that the authors of SpecDec and GAD released."""
