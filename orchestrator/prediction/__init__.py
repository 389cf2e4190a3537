"""The scheduler's rule, restated: pure, small, and checked against vLLM's own code.

`docs/prediction.md` explains it with drawings. In the order of the data:

    releases   a vLLM version           → the rule it follows
    splitting  one prefill              → where its next chunk ends
    caching    what requests left       → what the next one finds
    cells      a cell's token ids       → chunks, cached tokens, writers
    origins    a cell and its reference → eligible or not
    pairs      lengths alone            → the same, where the shared length may be unknown
"""
