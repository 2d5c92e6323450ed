"""From a program to a selection problem: which values, which Formats each may have, which options each op has.

Formats spread from the ops that ask for them: options are enumerated until no new Format turns up. Formats that are
the same bytes at the value's shape are one format of the problem, so that a reorder between them costs nothing and
needs no rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from layout_ir.diagnostics import PassError
from layout_ir.dialects import nn
from layout_ir.dialects.layout import dtype_of, format_of, is_any, is_tensor
from layout_ir.errors import LayoutError
from layout_ir.format import Format
from layout_ir.interfaces import LayoutOption
from layout_ir.layout import Layout
from layout_ir.passes.selection.costs import reorder_ns
from layout_ir.passes.selection.models import bound, model_of, plain, shape_of
from layout_ir.passes.selection.problem import FORBIDDEN, Choice, Matrix, OpNode, Problem, ValueNode
from layout_ir.passes.selection.targets import Target

FORMAT_LIMIT = 12
"""Formats per value; states grow with the subsets of what its uses may need, networks have two to four."""

ROUNDS = 64
"""Rounds of spreading. Formats travel at least one op per round; deep networks need few, as ops go in order."""


@dataclass(eq=False, slots=True)
class _Value:
    """The Formats of one value, each with the layout it binds to and a key that is equal for the same bytes."""

    value: SSAValue
    formats: list[Format] = field(default_factory=list[Format])
    layouts: list[Layout] = field(default_factory=list[Layout])
    keys: dict[object, int] = field(default_factory=dict[object, int])

    def number(self, fmt: Format) -> int | None:
        """The number of `fmt`, which is added if it is new; None where it does not fit or there are too many."""
        layout = bound(fmt, self.value)
        if layout is None:
            return None
        key = (layout.canonical, layout.padded_shape, layout.chunk_size, layout.extent)
        if key not in self.keys:
            if len(self.formats) >= FORMAT_LIMIT:
                return None
            self.keys[key] = len(self.formats)
            self.formats.append(fmt)
            self.layouts.append(layout)
        return self.keys[key]


@dataclass(eq=False, slots=True)
class Selection:
    """A problem and the program it came from: ops and values by number, Formats of each value by number."""

    problem: Problem
    ops: list[Operation | None]
    values: list[SSAValue]
    formats: list[list[Format]]


def needs_selection(value: SSAValue) -> bool:
    return is_tensor(value.type) and is_any(value.type)


class _Builder:
    def __init__(self, target: Target):
        self.target = target
        self.values: dict[SSAValue, _Value] = {}

    def entry(self, value: SSAValue) -> _Value:
        if value not in self.values:
            entry = _Value(value)
            known = format_of(value.type)
            if known is not None:
                entry.number(known)
            elif not is_any(value.type):
                raise LayoutError(f"{value.type} carries an encoding that no layout can be chosen for")
            self.values[value] = entry
        return self.values[value]

    def candidates(self, value: SSAValue) -> Sequence[Format]:
        return self.entry(value).formats

    def options(self, op: Operation) -> list[LayoutOption]:
        """The options of `op` that agree with the types that are already fixed."""
        result: list[LayoutOption] = []
        for option in model_of(op)(op, self.candidates, self.target):
            fits = True
            for value, fmt in zip(_tensors(op.results), option.outs, strict=True):
                known = format_of(value.type)
                if known is not None:
                    ours, theirs = bound(known, value), bound(fmt, value)
                    fits = fits and ours is not None and theirs is not None and ours.same_map(theirs)
            if fits:
                result.append(option)
        return result

    def spread(self, ops: list[Operation]) -> dict[Operation, list[LayoutOption]]:
        """Options of every op, after the Formats have spread as far as they go."""
        options: dict[Operation, list[LayoutOption]] = {}
        for round_ in range(ROUNDS):
            size = sum(len(entry.formats) for entry in self.values.values())
            order = ops if round_ % 2 == 0 else ops[::-1]
            for op in order:
                options[op] = self.options(op)
                for option in options[op]:
                    for value, fmt in zip(_tensors(op.operands), option.ins, strict=True):
                        if fmt is not None:
                            self.entry(value).number(fmt)
                    for value, fmt in zip(_tensors(op.results), option.outs, strict=True):
                        self.entry(value).number(fmt)
            if round_ and sum(len(entry.formats) for entry in self.values.values()) == size:
                break
        return options


def _tensors(values: Sequence[SSAValue]) -> list[SSAValue]:
    return [value for value in values if is_tensor(value.type)]


def _boundary(value: SSAValue, entry: _Value) -> tuple[Choice, ...]:
    """How an argument may arrive: in its Format, or, where that is open, in any that its uses want."""
    count = len(entry.formats) if is_any(value.type) else 1
    return tuple(Choice((), (k,), 0) for k in range(count))


def build(module: ModuleOp, target: Target) -> Selection:
    """The selection problem of all functions of a module.

    Raises PassError where an op has no option that agrees with the types it already has.
    """
    builder = _Builder(target)
    ops = [op for op in module.walk() if _takes_part(op)]
    options = builder.spread(ops)
    arguments = [
        arg
        for func in module.walk()
        if isinstance(func, FuncOp)
        for block in func.body.blocks
        for arg in block.args
    ]
    arguments = [arg for arg in arguments if is_tensor(arg.type)]
    for value in arguments:
        if not builder.entry(value).formats:
            builder.entry(value).number(plain(value))
    for op in ops:
        for value in _tensors(op.results):
            builder.entry(value)
    numbers = {value: k for k, value in enumerate(builder.values)}
    nodes: list[OpNode] = []
    origin: list[Operation | None] = []
    for value in builder.values:
        if isinstance(value, BlockArgument):
            entry = builder.values[value]
            nodes.append(OpNode((), (numbers[value],), _boundary(value, entry)))
            origin.append(None)
    for op in ops:
        nodes.append(_node(op, options[op], builder, numbers))
        origin.append(op)
    matrices: dict[object, Matrix] = {}
    values = [_value_node(entry, matrices) for entry in builder.values.values()]
    problem = Problem(tuple(nodes), tuple(values))
    return Selection(
        problem, origin, list(builder.values), [entry.formats for entry in builder.values.values()]
    )


def _takes_part(op: Operation) -> bool:
    if isinstance(op, ModuleOp | FuncOp):
        return False
    return any(is_tensor(value.type) for value in (*op.operands, *op.results))


def chosen_operands(op: Operation, option: LayoutOption) -> list[int]:
    """Positions of the operands whose Format the options of `op` name."""
    tensors = [k for k, value in enumerate(op.operands) if is_tensor(value.type)]
    return [k for k, fmt in zip(tensors, option.ins, strict=True) if fmt is not None]


def _node(
    op: Operation, options: list[LayoutOption], builder: _Builder, numbers: dict[SSAValue, int]
) -> OpNode:
    if not options:
        raise _no_option(op, builder)
    operands, results = [op.operands[k] for k in chosen_operands(op, options[0])], _tensors(op.results)
    # The same formats at a higher cost can never win.
    best: dict[tuple[tuple[int, ...], tuple[int, ...]], Choice] = {}
    for option in options:
        named = [fmt for fmt in option.ins if fmt is not None]
        ins = [builder.entry(value).number(fmt) for value, fmt in zip(operands, named, strict=True)]
        outs = [builder.entry(value).number(fmt) for value, fmt in zip(results, option.outs, strict=True)]
        if None in ins or None in outs:
            continue
        choice = Choice(
            tuple(k for k in ins if k is not None), tuple(k for k in outs if k is not None), option.cost
        )
        key = (choice.ins, choice.outs)
        if key not in best or choice.cost < best[key].cost:
            best[key] = choice
    if not best:
        raise _no_option(op, builder)
    return OpNode(
        tuple(numbers[v] for v in operands), tuple(numbers[v] for v in results), tuple(best.values())
    )


def _no_option(op: Operation, builder: _Builder) -> PassError:
    types = ", ".join(str(value.type) for value in _tensors(op.results)) or "its operands"
    return PassError(f"{op.name} has no option on target {builder.target.name} for {types}", op)


def _value_node(entry: _Value, matrices: dict[object, Matrix]) -> ValueNode:
    value = entry.value
    if isinstance(value.owner, nn.ConstantOp):
        # Every format of a constant is made when the program is built.
        return ValueNode(((0,) * len(entry.formats),) * len(entry.formats))
    dtype = dtype_of(value.type)
    key = (shape_of(value), dtype, tuple(entry.formats))
    if key not in matrices:
        matrices[key] = tuple(
            tuple(min(reorder_ns(source, destination, dtype), FORBIDDEN) for destination in entry.layouts)
            for source in entry.layouts
        )
    return ValueNode(matrices[key])
