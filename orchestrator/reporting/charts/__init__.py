"""Values → charts as static SVG. Nothing is judged or computed from raw answers here.

drawing    how every chart becomes SVG: colours of the page, one label, no script
movement   how far the candidates moved, token by token
lengths    the outcome by the length of A and of its chunks
chunks     how each request was to be split and what it restores
times      prefill times of the arms
memory     memory of the machine and of each server over time
"""
