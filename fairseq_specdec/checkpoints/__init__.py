"""Checkpoints: read, check, and one load of a verifier for everybody.

``apply`` makes fairseq read checkpoints so. It is applied at import, as the patches of ``compat``.
"""
