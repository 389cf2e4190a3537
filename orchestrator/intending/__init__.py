"""Intent against outcome: what an arm asked its server for, and what the server says it does.

`launch` reads the intent from the command line and the variables, `self_description` reads
`/server_info`, `rows` sets the two side by side and draws the gate from it.

The log's "non-default args" line repeats the command line. It is intent in the server's words, and
nothing here takes it for an outcome: with caching off it goes on saying `align`.
"""
