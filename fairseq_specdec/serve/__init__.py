"""A server for clients of LibreTranslate and DeepL (``specdec-serve``)."""
