"""Real parallel text from Debian, npm and PyPI packages; no download site is needed."""
