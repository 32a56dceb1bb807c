"""Measuring: paired timing of decoding systems, tables, provenance."""
