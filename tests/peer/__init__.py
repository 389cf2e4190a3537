"""`vllm-arms` and `vllm bench sweep serve` side by side: the same servers, requests and faults.

The words of this room. **Work**: one experiment, written down for both. **Tool**: one of the two.
**Job**: one call of a tool, as a user starts it. **Stopwatch**: what notes, inside every server
of either tool, when it is able to answer and what it is asked. **Play**: a job with a fault in it,
or with none. Server: a real vLLM for the CPU.
"""
