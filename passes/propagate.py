"""layout-propagate: choose a Format for every `#layout.any`, insert the reorders that are left.

Choosing and rewriting are apart: `selection.build` states the problem, a solver picks the options, and
`selection.apply` rewrites. What already has a Format keeps it. Programs without `any` are left as they are, reorders
included; `layout-fold-reorders` cleans up behind this pass.
"""

import json
import os
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from layout_ir.certificate.checking import ATTRIBUTE as CERTIFICATE
from layout_ir.diagnostics import PassError, remark
from layout_ir.dialects.layout import is_any, is_tensor
from layout_ir.errors import LayoutError
from layout_ir.passes.collecting import no_collection
from layout_ir.passes.selection.apply import apply
from layout_ir.passes.selection.build import Selection, build
from layout_ir.passes.selection.costs import CostModel, load_costs
from layout_ir.passes.selection.elimination import Infeasible
from layout_ir.passes.selection.problem import Problem, Solution
from layout_ir.passes.selection.solver import SOLVERS
from layout_ir.passes.selection.solver import solve as solve_problem
from layout_ir.passes.selection.targets import target_named


def solve(selection: Selection, solver: str = "exact", time_limit: float | None = None) -> Solution:
    """The choice that `solver` makes. Raises LayoutError for an unknown solver or where no choice is possible."""
    try:
        return solve_problem(selection.problem, solver, time_limit)
    except Infeasible as error:
        raise LayoutError(str(error)) from error


def propagate(
    module: ModuleOp,
    target: str = "host",
    solver: str = "exact",
    costs: CostModel | None = None,
    *,
    time_limit: float | None = None,
    report: str | None = None,
    attach: bool = False,
) -> Solution | None:
    """Chooses and rewrites in place; returns what was chosen, or None where nothing was open.

    `time_limit` (seconds) ends the search of the exact solver; the bound of the solution then says how far it may be
    from the optimum. `report` names a file for the certificate of the choice, which `layout-ir verify-certificate`
    checks; with `attach` the module carries it, as `layout.certificate`. Raises LayoutError for a solver that is
    unknown, or that proves nothing where a certificate is wanted.
    """
    _check(solver, time_limit, report or (f"the module's {CERTIFICATE}" if attach else None))
    if not any(needs_selection(value) for op in module.walk() for value in _defined(op)):
        if report is not None or attach:
            # What an earlier run wrote there would be taken for a proof of this program.
            _certified(module, Problem((), ()), time_limit, report, attach)
        return None
    with no_collection():
        selection = build(module, target_named(target), costs)
        if report is not None or attach:
            solution = _certified(module, selection.problem, time_limit, report, attach)
        else:
            solution = solve(selection, solver, time_limit)
        apply(module, selection, solution.choices, share=solver != "naive")
    return solution


def _check(solver: str, time_limit: float | None, report: str | None) -> None:
    if solver not in SOLVERS:
        raise LayoutError(f"unknown solver '{solver}': solvers are {', '.join(SOLVERS)}")
    if report is not None and solver != "exact":
        raise LayoutError(f"solver '{solver}' proves nothing: no certificate can be written to {report}")
    if time_limit is not None and not time_limit >= 0:
        raise LayoutError(f"time_limit = {time_limit} is no number of seconds from 0 on")


def _certified(
    module: ModuleOp, problem: Problem, time_limit: float | None, path: str | None, attach: bool
) -> Solution:
    """Solves exactly and writes the certificate, whole or not at all. Raises LayoutError where it cannot be written."""
    from layout_ir.passes.selection.certificate import certify

    try:
        solution, certificate = certify(problem, time_limit)
    except Infeasible as error:
        raise LayoutError(str(error)) from error
    if attach:
        module.attributes[CERTIFICATE] = StringAttr(json.dumps(certificate, separators=(",", ":")))
    if path is None:
        return solution
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(part, "x", encoding="utf-8") as stream:
            json.dump(certificate, stream)
        os.replace(part, path)
    except OSError as error:
        raise LayoutError(f"{path}: {error.strerror or error}") from error
    return solution


def needs_selection(value: SSAValue) -> bool:
    return is_tensor(value.type) and is_any(value.type)


def _defined(op: Operation) -> Iterator[SSAValue]:
    """The values that `op` makes: its results, and the arguments of its blocks."""
    yield from op.results
    for region in op.regions:
        for block in region.blocks:
            yield from block.args


@dataclass(frozen=True)
class SelectingPass(ModulePass):
    """Options: `target` (host, avx2, avx512, channels-last, ...), `solver` (exact, greedy, naive), `costs`, the file
    of a cost table (or `calibrated`), `time_limit` in seconds, `report`, a file for the certificate, and `attach`:
    whether the module carries the certificate as an attribute."""

    target: str = "host"
    solver: str = "exact"
    costs: str | None = None
    time_limit: float | int | None = None
    report: str | None = None
    attach: bool = False

    @abstractmethod
    def transform(self, module: ModuleOp, costs: CostModel | None) -> Solution | None:
        """Rewrites `module`; returns what was chosen. Raises LayoutError or PassError."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        try:
            solution = self.transform(op, None if self.costs is None else load_costs(self.costs))
        except LayoutError as error:
            raise PassError(str(error), op) from error
        if solution is not None and solution.bound is not None and not solution.is_optimal:
            remark(
                op,
                f"layouts may not be the cheapest: cost {solution.cost}, proven lower bound {solution.bound}; "
                "the search ended at its time_limit",
            )


@dataclass(frozen=True)
class LayoutPropagatePass(SelectingPass):
    """Selection alone; see `SelectingPass` for the options."""

    name = "layout-propagate"

    def transform(self, module: ModuleOp, costs: CostModel | None) -> Solution | None:
        return propagate(
            module,
            self.target,
            self.solver,
            costs,
            time_limit=self.time_limit,
            report=self.report,
            attach=self.attach,
        )
