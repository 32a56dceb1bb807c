"""The decoding loop and what surrounds it."""
