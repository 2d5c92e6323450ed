"""layout-optimize: the pipeline.

propagate           choose and insert
fold-reorders       what cancels, merges or is shared
prepack-constants   reorders of constants become constants
legalize-pads       fills where needed
fold-reorders       what the last two left behind
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from layout_ir.diagnostics import PassError
from layout_ir.errors import LayoutError
from layout_ir.passes.fold_reorders import fold_reorders
from layout_ir.passes.legalize_pads import legalize_pads
from layout_ir.passes.prepack_constants import prepack_constants
from layout_ir.passes.propagate import propagate
from layout_ir.passes.selection.costs import CostModel, load_costs
from layout_ir.passes.selection.problem import Solution


def optimize(
    module: ModuleOp, target: str = "host", solver: str = "exact", costs: CostModel | None = None
) -> Solution | None:
    """Runs the pipeline in place; returns the selection that was applied, or None where nothing was open.

    Raises LayoutError for an unknown target or solver, PassError where an op cannot be given a layout.
    """
    solution = propagate(module, target, solver, costs)
    fold_reorders(module)
    prepack_constants(module)
    legalize_pads(module)
    fold_reorders(module)
    return solution


@dataclass(frozen=True)
class LayoutOptimizePass(ModulePass):
    """Options: `target`, `solver` and `costs`, as for layout-propagate."""

    name = "layout-optimize"

    target: str = "host"
    solver: str = "exact"
    costs: str | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        try:
            costs = None if self.costs is None else load_costs(self.costs)
            optimize(op, self.target, self.solver, costs)
        except LayoutError as error:
            raise PassError(str(error), op) from error
