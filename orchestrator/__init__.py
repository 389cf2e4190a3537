"""vllm-arms: one fresh vLLM server per arm, and what their answers prove.

Glossary. These words are used with these meanings, in code and in reports.

Experiment
    A question in words, with the arms, documents and sizes that answer it (`arms/NAME.toml`).
Launch profile
    One way to start a server (`launch_profiles/NAME.toml`).
Plan
    Experiment × launch profile with nothing left to decide: token ids, salts, order, arguments.
Start
    One fresh server, from the first line of its log to its end.
Arm
    One server configuration, on a start of its own.
Cell
    A sequence of requests under one `cache_salt`: `reference` (B × N alone) or
    `contaminated` (A, then B × N).
Request A, request B
    Share the beginning of a document and differ in question, response schema and length.
    A warms the cache; B is what is measured.
Suite, item
    Questions about documents, asked several times through chat completions; one of them. An item
    is measured as a cell of its own, also where an arm lets it share its document's salt.
Run of an item
    One asking of it; what a repeat is to B.
Volley
    Requests of a cell that are sent at once.
Company
    The other requests of a volley; an answer may depend on them.
Repeat
    One sending of B in a cell; counted from 1.
Column, stack
    An arm on all of its starts. Where arms name launch profiles of their own, a column is a stack.
Cold request
    A streamed request under a salt of its own that nothing of is cached: for times, not for logits.
Grid, block
    The prefix cache's block size in tokens, also called the grid.
Hit group
    The repeats of a cell that were served the same number of cached tokens.
Probe
    One request to the server. Sent once, never retried.
Exchange
    The raw bytes of a probe and of its answer, with times.
Observation
    An exchange, decoded: for every generated token the chosen id and its candidates.
Candidate
    A token id with its log probability; the server lists the k most probable ones.
Cut
    The lowest log probability in a top-k list. Candidates that tie there are in or out by chance.
Digest
    SHA-256 over the top-k lists of all generated tokens, under a versioned scheme.
Variant
    The repeats whose answers are numerically equal; named A, B, C … in order of appearance.
Checkpoint
    The recurrent state saved where a chunk of a prefill ends on a block boundary.
Eligible
    A cell in which a restored block or state was computed in a chunk with other bounds than in
    B's reference cell. Necessary for the effect, not sufficient.
Fact, finding
    What a log line or a metric says about the server; a finding affects the result.
Gate
    A condition without which a cell is evidence of nothing.
Pattern
    How a cell's variants lie: among its repeats, and against its reference cells.
Exhibit
    What a whole report shows beside the verdict, taken from the stored evidence; never judged.
Agreement, score
    Whether a suite's runs say the same; whether they say what the document says. A score is given
    of a trained model only, and is no evidence about a server.
Verdict
    `stable`, `diverged` or `inconclusive`; of volleys `batch-equal`, `batch-dependent` or
    `inconclusive`; with the reason and with what it does not cover.
"""
