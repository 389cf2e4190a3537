"""Patches: applied, overlaid, reported and judged."""
