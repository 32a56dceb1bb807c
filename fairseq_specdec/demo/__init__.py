"""A local page on which strategies race on a sentence (``specdec-demo``)."""
