"""The decoding loop, its options and its strategies."""
