"""MINIATURE: not vLLM. An engine of our own with vLLM's surface, for looks, tests and faults.

What it is: a hybrid model with random weights in NumPy, a block-hash prefix cache, vLLM's
align-mode scheduling, and the HTTP API, metrics and log lines that an orchestrator reads. What
differs between two answers differs because float32 arithmetic does; see `linear_attention`.

What it is not: evidence about vLLM. Its first log line, `/version`, `/v1/models` and every
fingerprint say so.

It imports nothing of the orchestrator, which starts it as any other server:
`python -m orchestrator.miniature --port 8000`. The modules, in the order of the data:

settings → service → protocol → worker → engine → scheduler → cache → model (linear_attention,
full_attention, weights, arithmetic) → sampling → answers; beside them log, metrics, oracle, faults,
tampering and transport.
"""

LABEL = "MINIATURE: not vLLM"
VERSION = "0.1.0"
"""Of the miniature. Its numbers say nothing about vLLM's."""

FINGERPRINT = f"miniature-{VERSION}"
"""The `system_fingerprint` of its answers."""
