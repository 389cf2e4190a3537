"""Tests of the scores."""
