"""Random small programs as IR, and their cheapest layouts by trying everything.

formats.py      the formats that programs use, and the functions whose pads are known
costs.py        what moves, fills and ops of a program cost
drawing.py      a random program: ops with options, elementwise ops, loops, branches, calls, fixed types at the borders
reading.py      the choices of a program, as its text has them
optimum.py      the least cost of all ways to choose; what a program costs in which everything has been chosen

What a choice costs is read off the IR here, by other means than the passes have: formats are compared by their
addresses, what pads hold is computed with NumPy, and the cheapest reorders of a value are found by a search over sets
of what has been made. Nothing of `passes.selection` is used.
"""
