"""The fault campaign: what can go wrong, put at every stage of a run, on every runtime.

`table` says which faults there are and where they can happen; `stages` how a stage is seen from
outside; `actions` does what no server can do to itself; `scene` starts a run as a user does and
lets the fault happen; `holding` compares what is left with what must hold; `campaign` is the list
of combinations; `report` (`make faults`) runs them all and writes `docs/faults.md`.
"""
