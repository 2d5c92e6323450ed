"""The meaning of every op in NumPy: slow, obvious, pads included.

From the plain to the whole:

    tensor.py         a value at run time: a buffer and its layout
    operands.py       how ops read their operands, pads included
    kernels_*.py      plain functions on arrays
    semantics.py      the table from op to kernel
    interpreter.py    the table on xDSL's interpreter
"""
