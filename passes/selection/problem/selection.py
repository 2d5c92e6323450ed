"""A selection problem together with the program that it is about."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from layout_ir.algebra.format import Format
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.selection.problem.decision_points import DecisionPoint, Use
from layout_ir.selection.solver.selection_problem import Problem


@dataclass(frozen=True, slots=True)
class Omission:
    """A part of the program's choice that the problem does not state: at which op, and what, in words."""

    op: Operation
    what: str


@dataclass(frozen=True, eq=False, slots=True)
class Decision:
    """An op node of the problem in its program: its decision point, the uses that it decides on, and the option of each
    of its choices, by number."""

    point: DecisionPoint
    uses: tuple[Use, ...]
    options: tuple[LayoutOption, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Selection:
    """A problem and its program: the decision of each op node, the value of each value node and its Formats, by number.

    Where there are omissions, the optimum of the problem need not be that of the program.
    """

    problem: Problem
    decisions: tuple[Decision, ...]
    values: tuple[SSAValue, ...]
    formats: tuple[tuple[Format, ...], ...]
    omissions: tuple[Omission, ...] = ()
