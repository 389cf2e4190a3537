"""Tests of the prediction, and of what it is checked against."""
