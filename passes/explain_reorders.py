"""layout-explain: why each remaining reorder remains.

For every reorder that is left, a remark says what it moves, which ops force it, what it would cost to do without it,
and which missing capability would remove it at least cost, or which two where no single one does. The last two are
answered by the solver: the program is reopened (every layout but those of its signature is to be chosen again), a
reorder of the value is forbidden, or ops of one kernel class are given an option they lack, and the least costs are
compared. Where no optimum was proven, nothing is claimed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeGuard

from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from layout_ir.algebra.format import Format
from layout_ir.algebra.tag import name_of
from layout_ir.argument_checks import check_program
from layout_ir.diagnostics import name_of_op, remark
from layout_ir.dialects import nn
from layout_ir.dialects.layout import (
    AnyAttr,
    CastOp,
    FillPadsOp,
    OptionAttr,
    ReorderOp,
    ViewOp,
    dtype_of,
    format_of,
    has_layout,
    is_tensor,
    layout_of,
    with_format,
)
from layout_ir.errors import public
from layout_ir.interfaces import OPTIONS, LayoutOption
from layout_ir.passes.layout_pass import LayoutPass
from layout_ir.passes.reorder_report import describe, format_name, producer_of
from layout_ir.passes.rewriting import replace_op, retype
from layout_ir.passes.selection.costs.cost_model import CostModel, reorder_bytes, reorder_ns
from layout_ir.passes.selection.costs.cost_table import costs_given, load_costs
from layout_ir.passes.selection.options.conv_kernels import Target
from layout_ir.passes.selection.options.models import has_model
from layout_ir.passes.selection.options.targets import find_target, target_named
from layout_ir.passes.selection.options.tensor_formats import bound, shape_of
from layout_ir.passes.selection.problem.decision_points import decision_points
from layout_ir.passes.selection.problem.selection import Decision, Selection
from layout_ir.passes.selection.translation.from_ir import build
from layout_ir.passes.selection.translation.program_solution import solve_program
from layout_ir.selection.solver.selection_problem import (
    FORBIDDEN,
    Choice,
    Infeasible,
    OpNode,
    Problem,
    without_reorders,
)
from layout_ir.selection.solver.solve import solve_exact

LIMIT = 40
"""Reorders that are explained by solving again; further ones get their size and ops. One solution of a network of a
thousand ops takes about a tenth of a second."""

PAIRS = 15
"""Pairs of kernel classes that are tried: those of six classes."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why one reorder remains. Costs are in the unit of the cost model; None where nothing was solved."""

    op: ReorderOp
    nbytes: int
    producer: str
    consumer: str
    extra: int | None
    """How much more the cheapest program without a reorder of this value costs; FORBIDDEN where there is none."""
    missing: str | None
    """The missing capability that would remove it, and what that saves, in words."""
    unit: str = "ns"
    fixed: str = ""
    """The op beside it, if any, of which only the option that it runs now is known."""

    def __str__(self) -> str:
        change = f"{format_name(self.op.input)} -> {format_name(self.op.result)}"
        return f"{change} moves {self.nbytes} bytes, because {self.reason}"

    @property
    def reason(self) -> str:
        """The ops that force it, what doing without would cost, and what would remove it: the text behind "because"."""
        text = f"{self.producer} makes the one and {self.consumer} needs the other"
        if self.extra is not None:
            text += "; " + self._without()
        return text + (f"; {self.missing}" if self.missing else "")

    def _without(self) -> str:
        if self.extra == 0:
            return "a reorder of another value would cost the same"
        if self.extra is not None and self.extra >= FORBIDDEN // 2:
            return "there is no program without it" + (
                f" as long as {self.fixed} stays" if self.fixed else ""
            )
        return f"doing without would cost {self.extra} {self.unit} more"


@public
def explain(
    module: ModuleOp,
    target: str | Target = "host",
    costs: CostModel | str | os.PathLike[str] | None = None,
) -> list[Explanation]:
    """Why each reorder that is left in `module` remains, in program order. `module` is not changed.

    `costs`, or those in the file of a cost table, replace those that the target brings along. Raises LayoutError for an
    unknown target, and for what are no costs, or a file of them that cannot be read.
    """
    check_program(module)
    costs = costs_given(costs)
    machine = target_named(target)  # an unknown one is refused where nothing is to be explained, too
    left = [op for op in module.walk() if isinstance(op, ReorderOp) and _moves_activations(op)]
    if not left:
        return []
    copy, names, fixed = _reopened(module)
    costs = costs or machine.own_costs()
    unit = "ns" if costs is None else costs.unit
    selection = build(copy, machine, costs, everything=True)
    solution = solve_program(selection)
    numbers = {value: k for k, value in enumerate(selection.values)}
    missing = (
        _missing_capabilities(selection, solution.cost, left, costs or CostModel())
        if solution.is_optimal
        else {}
    )
    found: list[Explanation] = []
    for k, op in enumerate(left):
        number = numbers.get(names.get(_source(op), op.input))
        extra = None
        if solution.is_optimal and number is not None and k < LIMIT:
            extra = _cost_without(selection, number) - solution.cost
        found.append(_explained(op, extra, missing, unit, fixed))
    return found


def _moves_activations(op: ReorderOp) -> bool:
    if op.is_open or op.is_dynamic or isinstance(producer_of(op.input), nn.ConstantOp):
        return False
    return (
        op.keeps_elements
        and reorder_ns(layout_of(op.source_type), layout_of(op.result_type), dtype_of(op.result_type)) > 0
    )


def _source(op: ReorderOp) -> SSAValue:
    """The value that is reordered, in front of all casts, fills and other reorders of it."""
    value = op.input
    while _is_layout_only(value.owner):
        value = value.owner.input
    return value


def _is_layout_only(op: object) -> TypeGuard[ReorderOp | CastOp | FillPadsOp]:
    """Whether the result of `op` has the elements of its operand."""
    return isinstance(op, CastOp | FillPadsOp) or (isinstance(op, ReorderOp) and op.keeps_elements)


def _reopened(module: ModuleOp) -> tuple[ModuleOp, dict[SSAValue, SSAValue], set[str]]:
    """A copy in which every layout inside functions is free again, and its value for each value of the original.

    The third are the names of the ops that stay as they are, because no model says how else they could run.
    """
    names: dict[SSAValue, SSAValue] = {}
    copy = module.clone(value_mapper=names)
    moved: dict[SSAValue, SSAValue] = {}
    fixed = _fixed(copy)
    for op, option in fixed:
        op.attributes[OPTIONS] = ArrayAttr([OptionAttr(option)])
    for op in list(copy.walk()):
        if _is_layout_only(op):
            moved[op.result] = op.input
            replace_op(op, op.input)
    for op in list(copy.walk()):
        for value in (*op.results, *_inner_arguments(op)):
            if has_layout(value.type) and format_of(value.type) is not None:
                moved[value] = retype(value, with_format(value.type, AnyAttr()))

    def current(value: SSAValue) -> SSAValue:
        while value in moved:
            value = moved[value]
        return value

    values = {original: current(value) for original, value in names.items()}
    return copy, values, {name_of_op(op) for op, _ in fixed}


def _fixed(module: ModuleOp) -> list[tuple[Operation, LayoutOption]]:
    """The ops without a model, each with the one option that it is known to have: the layouts chosen for it."""
    points = [point.op for point in decision_points(module, everything=True) if not point.is_equality]
    found = [(op, _as_it_is(op)) for op in points if not has_model(op) and not _is_layout_only(op)]
    return [(op, option) for op, option in found if option is not None]


def _as_it_is(op: Operation) -> LayoutOption | None:
    """The layouts of the tensors of `op` as an option; None where it makes none, or some are still open."""
    ins, outs = (
        [format_of(value.type) for value in values if is_tensor(value.type)]
        for values in (op.operands, op.results)
    )
    known = tuple(fmt for fmt in outs if fmt is not None)
    return LayoutOption(tuple(ins), known, 0) if outs and None not in (*ins, *outs) else None


def _inner_arguments(op: Operation) -> Iterator[SSAValue]:
    if not isinstance(op, FuncOp):
        for region in op.regions:
            for block in region.blocks:
                yield from block.args


def _solved(problem: Problem) -> int:
    """The least cost; FORBIDDEN where no choice is possible."""
    try:
        return solve_exact(problem).cost
    except Infeasible:
        return FORBIDDEN


def _cost_without(selection: Selection, value: int) -> int:
    """The least cost of a program that never reorders `value`."""
    maps = [fmt.with_pad("undef") for fmt in selection.formats[value]]
    # Writing pads is no reorder.
    return _solved(without_reorders(selection.problem, value, lambda f, g: maps[f] == maps[g]))


def _kernel_class(op: Operation) -> str:
    """The class of ops that one kernel would run, in words: the name, and how operands are broadcast."""
    if isinstance(op, nn.BinaryOp):
        small = [v for v in op.operands if v not in op.formatted_operands()]
        if small and is_tensor(small[0].type):
            shape = small[0].type.get_shape()
            return f"{op.name} with an operand of {len(shape)} dims that is broadcast"
    if isinstance(op, nn.ConvOp) and op.group > 1:
        return f"{op.name} in groups"
    return name_of_op(op)


KernelClasses = frozenset[str]


def _missing_capabilities(
    selection: Selection, cost: int, left: Sequence[ReorderOp], costs: CostModel
) -> dict[KernelClasses, tuple[int, str]]:
    """Per kernel class, what would be saved if it accepted a Format that it does not, as a number and in words.

    Per pair of classes for reorders that no single class removes: a reorder between two ops that both lack a Format
    stays between others if only one of them gets it.
    """
    classes = sorted(
        {
            _kernel_class(decision.point.op)
            for decision in selection.decisions
            if _can_be_given_kernels(decision)
        }
    )
    found = _capabilities(selection, cost, [frozenset([kernel_class]) for kernel_class in classes], costs)
    stuck = [_sides(op) for op in left if not any(group & _sides(op) for group in found)]
    around = sorted(frozenset[str]().union(*stuck).intersection(classes))
    pairs = [frozenset(pair) for pair in combinations(around, 2)]
    return {**found, **_capabilities(selection, cost, pairs[:PAIRS], costs)}


def _capabilities(
    selection: Selection, cost: int, groups: Sequence[KernelClasses], costs: CostModel
) -> dict[KernelClasses, tuple[int, str]]:
    demand_formats = _formats_of_interest(selection)
    result: dict[KernelClasses, tuple[int, str]] = {}
    for classes in groups:
        for fmt in demand_formats:
            problem, changed = _with_kernels(selection, classes, fmt, costs)
            if changed:
                saved = cost - _solved(problem)
                if saved > result.get(classes, (0, ""))[0]:
                    name = name_of(fmt) or str(fmt)
                    result[classes] = (
                        saved,
                        f"{saved} {costs.unit} less in all if {' and '.join(sorted(classes))} accepted {name}",
                    )
    return result


def _sides(op: ReorderOp) -> KernelClasses:
    """The kernel classes of the ops on both sides of a reorder."""
    source = producer_of(op.input)
    users = [use.operation for use in op.result.uses]
    return frozenset(
        _kernel_class(side) for side in (*users, *([source] if isinstance(source, Operation) else []))
    )


def _can_be_given_kernels(decision: Decision) -> bool:
    op = decision.point.op
    return (
        not decision.point.is_equality
        and isinstance(op, nn.NNOp)
        and not isinstance(op, nn.ConstantOp | ViewOp)
    )


def _formats_of_interest(selection: Selection) -> list[Format]:
    """The activation Formats of convolutions, four at most: what other ops may lack."""
    found: dict[Format, None] = {}
    for decision in selection.decisions:
        if isinstance(decision.point.op, nn.ConvOp) and not decision.point.is_equality:
            for option in decision.options:
                found.setdefault(option.outs[0])
    return list(found)[:4]


def _with_kernels(
    selection: Selection, classes: KernelClasses, fmt: Format, costs: CostModel
) -> tuple[Problem, bool]:
    """The problem in which ops of `classes` also run with all tensors of `fmt`'s rank in it, at their least cost."""
    values = list(selection.problem.values)
    formats = list(selection.formats)

    def number(value: int, otherwise: int) -> int:
        """The number of `fmt` among the Formats of a value, which gets it if it does not have it; or what it has."""
        if len(shape_of(selection.values[value])) != fmt.rank:
            return otherwise
        alike = [k for k, other in enumerate(formats[value]) if other.with_pad(fmt.pad) == fmt]
        if alike:
            return next((k for k in alike if formats[value][k] == fmt), alike[0])
        layouts = [bound(other, selection.values[value]) for other in (*formats[value], fmt)]
        new = layouts.pop()
        if new is None or isinstance(selection.values[value].owner, nn.ConstantOp):
            return otherwise
        dtype = dtype_of(selection.values[value].type)
        rows: list[tuple[int, ...]] = []
        for layout, row in zip(layouts, values[value].reorder, strict=True):
            assert layout is not None
            rows.append((*row, costs.reorder(layout, new, dtype)))
        back = [costs.reorder(new, layout, dtype) for layout in layouts if layout is not None]
        values[value] = replace(values[value], reorder=(*rows, (*back, 0)))
        formats[value] = (*formats[value], fmt)
        return len(formats[value]) - 1

    ops: list[OpNode] = []
    changed = False
    for node, decision in zip(selection.problem.ops, selection.decisions, strict=True):
        if _can_be_given_kernels(decision) and _kernel_class(decision.point.op) in classes:
            first = node.choices[0]
            ins = tuple(number(v, own) for v, own in zip(node.operands, first.ins, strict=True))
            outs = tuple(number(v, own) for v, own in zip(node.results, first.outs, strict=True))
            if all((c.ins, c.outs) != (ins, outs) for c in node.choices):
                choice = Choice(ins, outs, min(c.cost for c in node.choices))
                node = OpNode(node.operands, node.results, (*node.choices, choice), node.weight)
                changed = True
        ops.append(node)
    return Problem(tuple(ops), tuple(values)), changed


def _explained(
    op: ReorderOp,
    extra: int | None,
    missing: dict[KernelClasses, tuple[int, str]],
    unit: str,
    fixed: Collection[str],
) -> Explanation:
    source, users = producer_of(op.input), [use.operation for use in op.result.uses]
    nbytes = reorder_bytes(layout_of(op.source_type), layout_of(op.result_type), dtype_of(op.result_type))
    producer = describe(source) if isinstance(source, Operation) else "the caller"
    consumer = describe(users[0]) if users else "nothing"
    sides = _sides(op)
    # One capability is less to ask for than two.
    known = [(-len(classes), *found) for classes, found in missing.items() if classes & sides]
    beside = [*([source] if isinstance(source, Operation) else []), *users]
    stays = next((name for name in map(name_of_op, beside) if name in fixed), "")
    best = max(known)[2] if known else None
    return Explanation(op, nbytes, producer, consumer, extra, best, unit, stays)


@dataclass(frozen=True)
class LayoutExplainPass(LayoutPass):
    """A remark per remaining reorder. Options: `target` and `costs`, as for layout-propagate."""

    name = "layout-explain"

    target: str = "host"
    costs: str | None = None

    def check_options(self) -> None:
        """Raises LayoutError for an unknown target."""
        find_target(self.target)

    def rewrite(self, module: ModuleOp) -> None:
        """Remarks on every reorder that is left. Raises LayoutError for an unknown target or a bad cost table."""
        costs = None if self.costs is None else load_costs(self.costs)
        for explanation in explain(module, self.target, costs):
            remark(explanation.op, str(explanation))
