"""Scripts that run under the engine's interpreter, never under ours.

Each script is given the path of one JSON document and writes one to standard output. They import
nothing of this package and nothing outside the standard library but vLLM itself, so that any
engine's interpreter can run them, in a container without network too. The folder `reporter` is
another thing: a vLLM plugin that a server loads (`overlay.with_reporter`).
"""
