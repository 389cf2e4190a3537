"""Experiment × launch profile → Plan, with nothing left to decide. Pure.

prompts    sizes, and prompts exact in token ids
launching  an arm's command line
cells      sequences of probes under their salts, with what is predicted of them
plans      all of it as one value
"""
