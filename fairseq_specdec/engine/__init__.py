"""Scoring a block of draft tokens in one pass, with a cache that rolls back by length."""
