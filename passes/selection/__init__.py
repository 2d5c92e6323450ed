"""Layout selection: which Format each value gets, apart from what is then rewritten.

build.py        the program as a problem: op nodes with options, value nodes with formats and reorder costs
problem.py      the problem itself, in plain integers, and what a choice costs
elimination.py  a choice of least cost, exactly
greedy.py       every op on its own, for comparison
models.py       which options an op has;  targets.py  which kernels a target has;  costs.py  what things cost
apply.py        the rewriting that a choice asks for
"""
