"""Layout selection: which Format each value gets, apart from what is then rewritten.

translation/   from_ir.py: the program as a problem, op nodes with options, value nodes with formats and reorder costs;
               apply.py: the rewriting that a choice asks for
problem/       problem.py: the problem itself, in plain integers, and what a choice costs;
               decision_points.py: where a program chooses; format_sets.py: lists of Formats that values share
options/       models.py: which options an op has; targets.py: which kernels a target has;
               op_classes.py: which ops are alike; foreign/: ops of other dialects
costs/         cost_model.py: what things cost; calibration.py: what reorders cost on this machine
pads/          split.py: formats split by what their pads hold, so that fills are part of the problem, by
               behaviour.py (what one option does with pads), states.py (which states a format has)
solver/        solve.py: a choice of least cost, with a bound that proves it, by
               cost_functions.py (tables over variables), demand_sets.py (values that share their uses),
               elimination_order.py and elimination.py (variables that can go), mincut.py (two formats),
               branch_and_bound.py and bounds.py (what is left);
               certificate.py: the proof written down, for the package layout_ir.certificate to check;
               greedy.py: every op on its own, for comparison
"""
