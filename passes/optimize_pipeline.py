"""layout-optimize: the pipeline.

    propagate           choose and insert
    fold-reorders       what cancels, merges or is shared
    prepack-constants   reorders of constants become constants
    legalize-pads       fills where needed
    fold-reorders       what the last two left behind

Folding here takes no op to another Format, as the pass by itself would: the selection has decided that, for kernels
and costs that folding does not know.
"""

import os
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from layout_ir.argument_checks import check_program
from layout_ir.passes.fold_reorders import CODE_MOTION, fold_reorders, rules_under
from layout_ir.passes.layout_pass import errors_of_pass
from layout_ir.passes.legalize_pads import legalize_pads
from layout_ir.passes.prepack_constants import prepack_constants
from layout_ir.passes.propagate import SelectingPass, certificate_file, check_arguments, propagate
from layout_ir.passes.selection.costs.cost_model import CostModel
from layout_ir.passes.selection.costs.cost_table import costs_given
from layout_ir.passes.selection.options.conv_kernels import Target
from layout_ir.passes.selection.options.targets import find_target
from layout_ir.selection.solver.selection_problem import Solution


def optimize(
    module: ModuleOp,
    target: str | Target = "host",
    solver: str = "exact",
    costs: CostModel | str | os.PathLike[str] | None = None,
    *,
    time_limit: float | None = None,
    report: str | None = None,
    attach: bool = False,
) -> Solution | None:
    """Runs the pipeline in place; returns the selection that was applied, or None where nothing was open.

    `target` is a Target or the name of one; `costs`, or those in the file of a cost table, replace those that it brings
    along. `time_limit`, `report` and `attach` are those of `propagate`.
    Raises LayoutError for arguments that are wrong for any program, as an unknown target or solver, or a file of costs
    that cannot be read, and PassError where an op cannot be given a layout.
    """
    check_program(module)
    check_arguments(solver, time_limit, report, attach)
    target, costs = find_target(target), costs_given(costs)
    with errors_of_pass(LayoutOptimizePass.name, module), certificate_file(report):
        solution = propagate(
            module,
            target,
            solver,
            costs,
            time_limit=time_limit,
            report=report,
            attach=attach,
            chosen_by="layout-optimize",
        )
        clean_up(module, costs or target.own_costs())
    return solution


def clean_up(module: ModuleOp, costs: CostModel | None) -> None:
    """Runs in place what follows layout-propagate in the pipeline."""
    rules = rules_under(costs or CostModel())
    fold_reorders(module, rules, CODE_MOTION)
    prepack_constants(module)
    legalize_pads(module)
    fold_reorders(module, rules, CODE_MOTION)


@dataclass(frozen=True)
class LayoutOptimizePass(SelectingPass):
    """The pipeline; see `SelectingPass` for the options."""

    name = "layout-optimize"

    select = staticmethod(optimize)
