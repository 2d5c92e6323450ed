"""layout-propagate: choose a Format for every `#layout.any`, insert the reorders that are left.

Choosing and rewriting are apart: `selection.translation.from_ir` states the problem, a solver picks the options, and
`selection.translation.apply` rewrites. What already has a Format keeps it. Programs without `any` are left as they are,
reorders included; `layout-fold-reorders` cleans up behind this pass.
"""

import json
from abc import abstractmethod
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

from xdsl.dialects.builtin import ModuleOp, StringAttr

from layout_ir.argument_checks import check_flags, check_seconds, checked_path
from layout_ir.diagnostics import remark
from layout_ir.errors import LayoutError
from layout_ir.files import all_or_none, write_result
from layout_ir.forking import loading
from layout_ir.gc_pause import gc_paused
from layout_ir.passes.layout_pass import LayoutPass
from layout_ir.passes.selection.costs.cost_model import CostModel
from layout_ir.passes.selection.costs.cost_table import load_costs
from layout_ir.passes.selection.costs.measured_costs import MeasuredCosts
from layout_ir.passes.selection.options.conv_kernels import Target
from layout_ir.passes.selection.options.targets import find_target, target_named
from layout_ir.passes.selection.problem.selection import Selection
from layout_ir.passes.selection.translation.apply import apply
from layout_ir.passes.selection.translation.from_ir import build, is_open
from layout_ir.passes.selection.translation.program_solution import solve_program
from layout_ir.selection.solver.selection_problem import Problem, Solution
from layout_ir.selection.solver.solve import check_solver


def propagate(
    module: ModuleOp,
    target: str | Target = "host",
    solver: str = "exact",
    costs: CostModel | None = None,
    *,
    time_limit: float | None = None,
    report: str | None = None,
    attach: bool = False,
    chosen_by: str = "layout-propagate",
) -> Solution | None:
    """Chooses and rewrites in place; returns what was chosen, or None where nothing was open.

    `target` is a Target or the name of one (`find_target`), `costs` replace those that it brings along.
    `time_limit` (seconds) covers stating the problem and the search of the exact solver. Formats spread from op to op
    for half of it at most: what they would have reached is left out then. The search has the rest, a quarter at least;
    the bound of the solution says how far it may be from the optimum.
    `report` names a file for the certificate of the choice, which `layout-ir verify-certificate` checks; with `attach`
    the module carries it, as `layout.certificate`, with the text of the program before, and with `chosen_by`, the pass
    that makes the one from the other. Where the problem leaves out a part of the choice, a remark says so, and the
    solution has no bound. Raises LayoutError for a target or solver that is unknown, or a solver that proves nothing
    where a certificate is wanted.
    """
    check_arguments(solver, time_limit, report, attach)
    target = find_target(target)
    opened = is_open(module)
    # A certificate that an earlier run wrote to `report` would be taken for one of this program.
    if not opened and report is None and not attach:
        return None
    with certificate_file(report), gc_paused():
        chosen = target_named(target)
        started = monotonic()
        spread = None if time_limit is None else time_limit / 2
        selection = (
            build(module, chosen, costs, time_limit=spread)
            if opened
            else Selection(Problem((), ()), (), (), ())
        )
        if time_limit is not None:
            time_limit = max(time_limit - (monotonic() - started), time_limit / 4)
        for omission in dict.fromkeys(selection.omissions):
            remark(omission.op, f"layouts may not be the cheapest: {omission.what}")
        if report is not None or attach:
            with loading:  # what no other program needs
                from layout_ir.certificate.checking import ATTRIBUTE, seal
                from layout_ir.passes.selection.translation.origin import origin_of, text_of
                from layout_ir.passes.selection.translation.price_statement import price_statement
                from layout_ir.passes.selection.translation.program_solution import certify_program

            program = text_of(module) if attach else None
            origin = origin_of(chosen.name, costs, program, chosen_by)
            solution, certificate = certify_program(selection, time_limit, origin)
            if isinstance(costs, MeasuredCosts) and opened:
                origin["prices"] = price_statement(selection, costs, solution.choices).to_json()
                certificate["seal"] = seal(certificate)
            if attach:
                text = json.dumps(certificate, separators=(",", ":"))
                module.attributes[ATTRIBUTE] = StringAttr(text)
            if report is not None:
                write_result(json.dumps(certificate), report)
        else:
            solution = solve_program(selection, solver, time_limit)
        if opened:
            apply(module, selection, solution.choices, share=solver != "naive")
    return solution if opened else None


def apply_choices(
    module: ModuleOp, choices: Sequence[int], target: str | Target, costs: CostModel | None
) -> None:
    """Rewrites `module` in place so that op node o of its problem takes choices[o]. Raises LayoutError."""
    if is_open(module):
        apply(module, build(module, target_named(target), costs), tuple(choices))


@contextmanager
def certificate_file(path: str | None) -> Generator[None]:
    """Writes the certificate to `path` only if the body ends without an error. Raises LayoutError where it cannot."""
    try:
        with all_or_none(path):
            yield
    except OSError as error:
        if error.filename != path:
            raise
        raise LayoutError(f"{path}: {error.strerror or error}") from error


def check_arguments(solver: str, time_limit: float | None, report: str | None, attach: bool) -> None:
    """Raises LayoutError for an unknown solver, a certificate of one that proves nothing, a report that is no path, and
    a bad time limit."""
    check_solver(solver)
    check_flags(attach=attach)
    if report is not None:
        checked_path(report, "report")
    if (report is not None or attach) and solver != "exact":
        place = "the module's layout.certificate" if report is None else report
        raise LayoutError(f"solver '{solver}' proves nothing: no certificate can be written to {place}")
    if time_limit is not None:
        check_seconds("time_limit", time_limit)


LARGE = "some value may be needed in more formats at once than could be told apart"
"""Why a search without a time limit may end without a proof, in words."""


@dataclass(frozen=True)
class SelectingPass(LayoutPass):
    """Options: `target` (host, avx2, avx512, channels-last, ..., or "package:name"), `solver` (exact, greedy, naive),
    `costs`, the file of a cost table or of measured prices (or `calibrated`, `measured`), `time_limit` in seconds,
    `report`, a file for the certificate, and `attach`: whether the module carries the certificate as an attribute."""

    target: str = "host"
    solver: str = "exact"
    costs: str | None = None
    time_limit: float | int | None = None
    report: str | None = None
    attach: bool = False

    @staticmethod
    @abstractmethod
    def select(
        module: ModuleOp,
        target: str | Target,
        solver: str,
        costs: CostModel | None,
        *,
        time_limit: float | None,
        report: str | None,
        attach: bool,
    ) -> Solution | None:
        """What the pass does, with its options as `propagate` takes them: a function with the parameters of that."""

    def check_options(self) -> None:
        """Raises LayoutError for an unknown target, and where `propagate` does for its options."""
        find_target(self.target)
        check_arguments(self.solver, self.time_limit, self.report, self.attach)

    def rewrite(self, module: ModuleOp) -> None:
        """Selects; a remark says so where the choice is not proven the cheapest. Raises LayoutError or PassError."""
        solution = self.select(
            module,
            self.target,
            self.solver,
            None if self.costs is None else load_costs(self.costs),
            time_limit=self.time_limit,
            report=self.report,
            attach=self.attach,
        )
        if solution is not None and solution.bound is not None and not solution.is_optimal:
            remark(
                module,
                f"layouts may not be the cheapest: cost {solution.cost}, proven lower bound {solution.bound}; "
                + ("the search ended at its time_limit" if self.time_limit is not None else LARGE),
            )


@dataclass(frozen=True)
class LayoutPropagatePass(SelectingPass):
    """Selection alone; see `SelectingPass` for the options."""

    name = "layout-propagate"

    select = staticmethod(propagate)
