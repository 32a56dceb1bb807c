"""``specdec-env``: what this installation is, for an issue."""
