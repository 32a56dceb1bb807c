"""Load on a server of this machine, and CTranslate2 in the engine's place (``--bench``)."""
