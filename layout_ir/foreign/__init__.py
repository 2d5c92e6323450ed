"""What ops of other dialects mean, as far as it is known here; passes and backends both build on it.

scalar.py       scalar arith and math ops, on numbers and on arrays
structured.py   an op as loops: one map per tensor, kinds of the loops, a scalar body
"""
