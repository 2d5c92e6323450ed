"""Layout selection: which Format each value gets, apart from what is then rewritten.

A room imports those below it in this list, never those above.

translation/   from_ir.py: a program as a selection problem, options spread over format_lists.py;
               program_solution.py: the solver's answer, said of the program; apply.py: the rewriting it asks for;
               origin.py: which program a certificate is of
pads/          split.py: formats split by what their pads hold, so that fills are part of the problem, by
               behaviour.py (what one option does with pads), states.py (which states a format has)
problem/       selection.py: a problem together with its program; decision_points.py: where a program chooses;
               frequency.py: how often that runs; cycles.py: programs that have no order
options/       models.py: which options an op has; targets.py: which kernels a target has; matmul_options.py and
               in_place.py: rules of some ops; op_classes.py: which ops are alike; tensor_formats.py: Formats at the
               shape of a tensor; foreign/: ops of other dialects
costs/         cost_model.py: what things cost; cost_table.py: from a file; calibration.py: measured on this machine
solver/        selection_problem.py: the problem in plain integers, and what a choice costs;
               solve.py: a choice of least cost, with a bound that proves it, by
               cost_functions.py (tables over variables), demand_sets.py (values that share their uses),
               elimination_order.py and elimination.py (variables that can go), mincut.py (two formats),
               branch_and_bound.py and lower_bounds.py (what is left);
               certificate.py: the proof written down, for the package layout_ir.certificate to check;
               greedy.py: every op on its own, for comparison
"""
