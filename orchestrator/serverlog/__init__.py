"""From the log of a vLLM server to facts and findings; pure, incremental, in constant memory.

The path of a line: `lines` (prefix and message) → `facts`, `findings` (tables: messages that
say something) and `tracebacks` → `exceptions` (table: what an exception means) → `scan` (which
of it affects the result, given what came before).

Two promises. A line is matched by its message, never by `[file:line]`, which changes with every
release. And a finding is fatal only when the server can no longer become ready, or stay so.
"""
