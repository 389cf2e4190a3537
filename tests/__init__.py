"""Tests of vllm-arms."""
