"""Tests of the miniature engine; see docs/miniature.md."""
