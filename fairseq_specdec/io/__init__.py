"""Files written whole or not at all, locks, progress bars, and where a result comes from.

Imports nothing of the package, nor torch nor fairseq: ``scripts/lib`` loads these modules from
their files, before the package is installed.
"""
