"""Layout selection: which Format each value gets, apart from what is then rewritten.

build.py        the program as a problem: op nodes with options, value nodes with formats and reorder costs;
                kinds.py says which ops are alike, formats.py keeps lists of Formats that values share
pads.py         formats split by what their pads hold, so that fills are part of the problem, by
                padding.py (what one option does with pads), pad_states.py (which states a format has)
problem.py      the problem itself, in plain integers, and what a choice costs
solver.py       a choice of least cost, with a bound that proves it, by
                factors.py (tables over variables), sharing.py (values that share their uses),
                order.py and elimination.py (variables that can go),
                mincut.py (two formats), core.py and bounds.py (branch and bound over what is left)
certificate.py  the proof written down, for the package layout_ir.certificate to check
greedy.py       every op on its own, for comparison
models.py       which options an op has;  targets.py  which kernels a target has;  costs.py  what things cost
apply.py        the rewriting that a choice asks for
"""
