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

What they state is solved, and proven, by the package layout_ir.selection, which knows no program.
"""
