"""The decision points of a program: what uses and makes tensors under one common choice.

An op with options is a decision point. An equality constraint is the other kind: tensors that ops of control flow pass
on under several names must have one layout. A loop-carried tensor is one: what comes in, what the body sees, what it
yields and what comes out. The branches of an `scf.if` meet in its result, the arguments of all calls of a function in
its parameters, those of branches in the arguments of a block. Equality constraints cost nothing. What crosses the
regions of an op that nobody knows is row-major, unless the op states constraints itself (`interfaces.RegionLinks`).

Only decision points with a tensor whose layout is to be chosen take part. A value that they use and none of them makes
has the layout of its type, by a constraint of its own.

How often a decision point runs is said by `frequency.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from layout_ir.diagnostics import PassError, name_of_op
from layout_ir.dialects.layout import has_layout, is_any, is_tensor, with_format
from layout_ir.interfaces import OPTIONS, RegionLinks
from layout_ir.passes.selection.options.tensor_formats import row_major, shape_of
from layout_ir.passes.selection.problem.frequency import FREQUENCY, BlockFrequencies, calls_of, frequency_of

_AGREEING = {
    "cf.br",
    "cf.cond_br",
    "func.func",
    "func.call",
    "func.return",
    "scf.for",
    "scf.if",
    "scf.while",
    "scf.yield",
    "scf.condition",
}
"""Names of ops whose operands and results take part in equality constraints, and which choose nothing themselves."""

Use = tuple[Operation, int]
"""An op and the number of one of its operands."""


@dataclass(frozen=True, eq=False, slots=True)
class DecisionPoint:
    """An op with options, or, where `is_equality`, tensors that must have one layout.

    `op` is the op that errors name. `declared` is the type that a signature fixes for all tensors of a constraint, or
    None.
    """

    op: Operation
    uses: tuple[Use, ...]
    defs: tuple[SSAValue, ...]
    weight: int
    is_equality: bool = False
    declared: Attribute | None = None

    def values(self) -> Iterator[SSAValue]:
        """The values that it uses, then those that it makes."""
        for user, k in self.uses:
            yield user.operands[k]
        yield from self.defs


def decision_points(
    module: ModuleOp, weights: BlockFrequencies | None = None, *, everything: bool = False
) -> list[DecisionPoint]:
    """The decision points of a module that have something to choose, in program order; with `everything`, all.

    Raises PassError for a malformed frequency, and for options on an op that has none to choose from.
    """
    functions = {op.sym_name.data for op in module.walk() if isinstance(op, FuncOp)}
    calls = calls_of(module)
    weights = weights or BlockFrequencies(calls)
    for op in module.walk():
        if isinstance(op, CallOp) and op.callee.string_value() not in functions and touches_any(op):
            raise PassError(f"call of @{op.callee.string_value()}, which the module does not define", op)
        if FREQUENCY in op.attributes:
            frequency_of(op)
        if OPTIONS in op.attributes and op.name in _AGREEING and touches_any(op):
            raise PassError(
                f"{OPTIONS} on {op.name}, whose tensors have the layouts of the ops around it: it chooses none",
                op,
            )
    found: list[DecisionPoint] = []
    late: list[DecisionPoint] = []
    linked = _linked(module)
    for op in module.walk():
        found += _points_of(op, calls, weights, linked)
        if isinstance(op, FuncOp):
            late += _results(op, calls.get(op.sym_name.data, []))
    found += late
    if not everything:
        found = [point for point in found if any(is_any(value.type) for value in point.values())]
    return _with_sources(found)


def touches_any(op: Operation) -> bool:
    """Whether a layout is still to be chosen for an operand or a result of `op`."""
    return any(is_tensor(value.type) and is_any(value.type) for value in (*op.operands, *op.results))


def _with_sources(found: list[DecisionPoint]) -> list[DecisionPoint]:
    """`found`, behind one constraint for each value that they use and none of them makes: it has its type's layout."""
    made = {value for point in found for value in point.defs}
    given: dict[SSAValue, None] = {}
    for point in found:
        given.update((value, None) for value in point.values() if value not in made)
    return [
        *(
            DecisionPoint(
                value.owner if isinstance(value.owner, Operation) else user, (), (value,), 1, True, value.type
            )
            for value, user in ((value, _user(value)) for value in given)
        ),
        *found,
    ]


def _user(value: SSAValue) -> Operation:
    """The op that errors about an argument of a block name: the one around it, or else a user."""
    owner = value.owner
    around = owner if isinstance(owner, Operation) else owner.parent_op()
    return around if around is not None else next(iter(value.uses)).operation


def _linked(module: ModuleOp) -> set[Use]:
    """The uses that equality constraints of `RegionLinks` and of branches speak of."""
    return {use for op in module.walk() for use, _ in _branches(op)} | {
        (link_op, k)
        for op in module.walk()
        if isinstance(op, RegionLinks)
        for link in op.links()
        for link_op, k in link.uses
    }


def _branches(op: Operation) -> Iterator[tuple[Use, SSAValue]]:
    """The operands that a branch of `cf` passes on, each with the argument of the block that takes it."""
    if op.name == "cf.br":
        firsts = [0]
    elif op.name == "cf.cond_br":
        firsts = [1, 1 + len(op.successors[0].args)]
    else:
        return
    for block, first in zip(op.successors, firsts, strict=True):
        for k, arg in enumerate(block.args):
            yield (op, first + k), arg


def _points_of(
    op: Operation, calls: dict[str, list[CallOp]], weights: BlockFrequencies, linked: set[Use]
) -> Iterator[DecisionPoint]:
    match op:
        case ModuleOp():
            pass
        case FuncOp():
            yield from _function(op, calls.get(op.sym_name.data, []))
        case Operation(name="scf.for"):
            body = op.regions[0].block
            for k, (arg, result) in enumerate(zip(body.args[1:], op.results, strict=True)):
                yield from _equality(op, ((op, 3 + k), (body.last_op, k)), (arg, result))
        case Operation(name="scf.if"):
            ends = [block.last_op for region in op.regions for block in region.blocks]
            for k, result in enumerate(op.results):
                yield from _equality(op, tuple((end, k) for end in ends), (result,))
        case Operation(name="scf.while"):
            before, after = (region.block for region in op.regions)
            for k, arg in enumerate(before.args):
                yield from _equality(op, ((op, k), (after.last_op, k)), (arg,))
            for k, (arg, result) in enumerate(zip(after.args, op.results, strict=True)):
                yield from _equality(op, ((before.last_op, 1 + k),), (arg, result))
        case Operation(name="func.return" | "func.call" | "scf.condition"):
            pass
        case Operation(name="scf.yield") if _is_structured(op.parent_op()):
            pass
        case _:
            yield from _ordinary(op, weights, linked)


def _is_structured(op: Operation | None) -> bool:
    return op is not None and op.name in ("scf.for", "scf.if", "scf.while")


def _ordinary(op: Operation, weights: BlockFrequencies, linked: set[Use]) -> Iterator[DecisionPoint]:
    """The decision points of an op that is no control flow: itself, with its options, and what crosses its regions.

    Tensors that cross a region are row-major, or as their types say, but for those that the op links.
    """
    links = list(op.links()) if isinstance(op, RegionLinks) else []
    for link in links:
        yield from _equality(op, tuple(link.uses), tuple(link.values))
    bound = {value for link in links for value in link.values}
    own = [(op, k) for k, value in enumerate(op.operands) if has_layout(value.type)]
    uses = tuple([use for use in own if use not in linked])
    defs = tuple([value for value in op.results if has_layout(value.type) and value not in bound])
    if len(uses) < len(own) or bound:
        # Options speak of all tensors of an op: where some are linked, each of the others is row-major.
        for use in uses:
            yield from _equality(op, (use,), (), _row_major(op.operands[use[1]]))
        for value in defs:
            yield from _equality(op, (), (value,), _row_major(value))
    elif uses or defs:
        yield DecisionPoint(op, uses, defs, weights.of(op))
    for region in op.regions:
        for number, block in enumerate(region.blocks):
            for arg in block.args:
                if has_layout(arg.type) and arg not in bound:
                    uses = _incoming(block, arg) if number else ()
                    yield from _equality(op, uses, (arg,), None if uses else _row_major(arg))


def _row_major(value: SSAValue) -> Attribute:
    """The type of `value`, row-major where its layout is to be chosen."""
    return with_format(value.type, row_major(value)) if is_any(value.type) else value.type


def _incoming(block: Block, arg: BlockArgument) -> tuple[Use, ...]:
    """The operands of branches that come in as `arg`."""
    region = block.parent
    ends = [other.last_op for other in region.blocks] if region is not None else []
    return tuple(use for end in ends if end is not None for use, taken in _branches(end) if taken is arg)


def _function(op: FuncOp, calls: list[CallOp]) -> Iterator[DecisionPoint]:
    """The constraints of a function: a parameter has the layout of the arguments of all calls."""
    if not op.body.blocks:
        for call in calls:
            for k, declared in enumerate(op.function_type.inputs):
                yield from _equality(op, ((call, k),), (), declared)
            for result in call.results:
                yield from _equality(op, (), (result,))
        return
    for number, block in enumerate(op.body.blocks):
        for k, arg in enumerate(block.args):
            if number:
                uses = _incoming(block, arg)
                known = None if uses or not has_layout(arg.type) else _row_major(arg)
                yield from _equality(op, uses, (arg,), known)
            else:
                yield from _equality(op, tuple((call, k) for call in calls), (arg,))


def _results(op: FuncOp, calls: list[CallOp]) -> Iterator[DecisionPoint]:
    """The constraints of a function's results, with those of its calls. One that is open and never called is free."""
    returns = [block.last_op for block in op.body.blocks if isinstance(block.last_op, ReturnOp)]
    for k, declared in enumerate(op.function_type.outputs):
        defs = tuple(call.results[k] for call in calls)
        fixed = is_tensor(declared) and not is_any(declared)
        if fixed or defs or len(returns) > 1:
            yield from _equality(op, tuple((end, k) for end in returns), defs, declared if fixed else None)


def _equality(
    op: Operation,
    uses: tuple[tuple[Operation | None, int], ...],
    defs: tuple[SSAValue, ...],
    declared: Attribute | None = None,
) -> Iterator[DecisionPoint]:
    """The equality constraint of `uses` and `defs`; none where they are no tensors that can have a layout.

    Raises PassError where a layout is to be chosen for some and others can have none, or their shapes differ.
    """
    known = tuple((user, k) for user, k in uses if user is not None)
    types = [user.operands[k].type for user, k in known] + [value.type for value in defs]
    if types and all(has_layout(type) for type in types):
        shapes = {shape_of(value) for value in (*(user.operands[k] for user, k in known), *defs)}
        if len(shapes) == 1:
            yield DecisionPoint(op, known, defs, 1, True, declared)
            return
    if any(is_tensor(type) and is_any(type) for type in types):
        other = next((type for type in types if not has_layout(type)), types[-1])
        raise PassError(
            f"{name_of_op(op)} makes one tensor of {types[0]} and {other}: they have no layout in common", op
        )
