"""Beam search that equals fairseq's: replayed over a tree of scored prefixes."""
