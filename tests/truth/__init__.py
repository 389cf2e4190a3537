"""The truth of verdicts: what the judge says, against oracles that are not the judge.

built       runs whose every answer was put in, so that their truth is known
families    the kinds of runs that are built, and what is true of each
witnessed   runs on the miniature, whose engine tells which bits it restored
tensors     those bits, and the raw answers, compared without digest or judge
confusion   truth against verdict, counted
mutations   the judge without one of its rules, on the same runs
"""
