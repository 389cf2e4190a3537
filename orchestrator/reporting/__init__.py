"""Verdicts → what people read. Nothing is judged here."""
