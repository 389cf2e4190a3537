"""From the log of a vLLM server to facts and findings; pure, incremental, in constant memory.

The path of a line: `lines` (prefix and message) → the tables `start_facts`, `cache_facts`,
`serving_facts` and `findings` (messages that say something), or `tracebacks` → `exceptions` (table:
what an exception means) → `account` (what that means after all that came before). `scan` leads
through it.

Two promises. A line is matched by its message, never by `[file:line]`, which changes with every
release. And a finding is fatal only when the server can no longer become ready, or stay so.
"""
