"""Options for ops at least cost, with a proof: what layout selection is, apart from programs, and as a library.

numbering.py        ops and options under names
named_problem.py    a problem as a compiler states it: names for ops and values, any hashable formats, costs on demand
named_solution.py   the choice, the reorders that remain, and why they do
conflict.py         what makes a problem impossible
bit_sets.py         sets of formats by their numbers
stated_numbers.py   a problem that a caller has stated in numbers: looked at, then solved
solver/             the problem in plain integers, and what finds and proves its optimum

`NamedProblem` is where to begin (docs/selection.md). A compiler whose values have numbers already, and are many, states
`Problem` itself, as the passes of this package do. Nothing here knows xDSL. Names are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module

from layout_ir.forking import loading

TYPE_CHECKING = False  # that of `typing`, whose import would take longer than all else here
if TYPE_CHECKING:
    from typing import Any

    from layout_ir.certificate.checking import verify
    from layout_ir.selection.named_problem import NamedProblem
    from layout_ir.selection.named_solution import NamedReorder, NamedSolution, Reason
    from layout_ir.selection.numbering import Option
    from layout_ir.selection.solver.selection_problem import (
        FORBIDDEN,
        Choice,
        Infeasible,
        OpNode,
        Problem,
        Solution,
        ValueNode,
    )
    from layout_ir.selection.stated_numbers import certify, solve

_WHERE = {
    "FORBIDDEN": "selection.solver.selection_problem",
    "Choice": "selection.solver.selection_problem",
    "Infeasible": "selection.solver.selection_problem",
    "NamedProblem": "selection.named_problem",
    "NamedReorder": "selection.named_solution",
    "NamedSolution": "selection.named_solution",
    "OpNode": "selection.solver.selection_problem",
    "Option": "selection.numbering",
    "Problem": "selection.solver.selection_problem",
    "Reason": "selection.named_solution",
    "Solution": "selection.solver.selection_problem",
    "ValueNode": "selection.solver.selection_problem",
    "certify": "selection.stated_numbers",
    "solve": "selection.stated_numbers",
    "verify": "certificate.checking",
}
"""Every public name, and the module that defines it."""

__all__ = [
    "FORBIDDEN",
    "Choice",
    "Infeasible",
    "NamedProblem",
    "NamedReorder",
    "NamedSolution",
    "OpNode",
    "Option",
    "Problem",
    "Reason",
    "Solution",
    "ValueNode",
    "certify",
    "solve",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'layout_ir.selection' has no attribute '{name}'")
    with loading:
        value = getattr(import_module(f"layout_ir.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
