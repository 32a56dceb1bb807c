"""Making training data: sequence-level distillation of a binarised corpus (``distill``)."""
