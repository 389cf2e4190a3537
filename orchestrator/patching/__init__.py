"""Patches of the engine's source: applied, reported by the server, judged. Pure.

An anchor is found exactly as often as its patch states, or nothing is changed.
"""
