"""A translation server that clients of LibreTranslate can use (``specdec-serve``)."""
