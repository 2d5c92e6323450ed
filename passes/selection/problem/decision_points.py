"""Where a program chooses: each place that uses and makes tensors under one common choice.

An op with options is one such place. A loop-carried tensor is another: what comes in, what the body sees, what it
yields and what comes out are one layout, whichever ops name them. The branches of an `scf.if` meet in its result, the
arguments of all calls of a function in its parameters, those of branches in the arguments of a block. Such places have
no cost of their own; they only agree. What crosses the regions of an op that nobody knows is row-major, unless the op
says what must agree (`interfaces.RegionLinks`).

Only places with a tensor whose layout is open take part. What they use and none of them makes comes as its type says.

A block that runs often weighs more: by `layout.frequency = N` on the op around it, else by the trip count of an
`scf.for` with constant bounds, else by LOOP_TRIPS. A function runs as often as it is called, and once if it is not,
or as its own frequency says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import cf, scf
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from layout_ir.diagnostics import PassError, name_of_op
from layout_ir.dialects.layout import has_layout, is_any, is_tensor, with_format
from layout_ir.interfaces import RegionLinks
from layout_ir.passes.selection.problem.omission import Omission
from layout_ir.passes.selection.problem.tensors import OPTIONS, plain, shape_of

LOOP_TRIPS = 10
"""How often a loop of unknown length is taken to run: enough that nothing movable stays inside."""

MOST = 1 << 24
"""How often a block runs at most, for selection: more would leave no room for costs in 64 bits. What runs more often is
counted as this often, which is an omission of the problem."""

FREQUENCY = "layout.frequency"

_AGREEING = (
    cf.BranchOp,
    cf.ConditionalBranchOp,
    FuncOp,
    CallOp,
    ReturnOp,
    scf.ForOp,
    scf.IfOp,
    scf.WhileOp,
    scf.YieldOp,
    scf.ConditionOp,
)
"""Ops whose operands and results are parts of slots."""

Use = tuple[Operation, int]
"""An op and the number of one of its operands."""


@dataclass(frozen=True, eq=False, slots=True)
class Site:
    """One place of choice. `op` is the one to blame; `is_slot` tells agreement from an op with options.

    `declared` is the type that a signature fixes for all of a slot, or None.
    """

    op: Operation
    uses: tuple[Use, ...]
    defs: tuple[SSAValue, ...]
    weight: int
    is_slot: bool = False
    declared: Attribute | None = None

    def values(self) -> Iterator[SSAValue]:
        """What it uses, then what it makes."""
        for user, k in self.uses:
            yield user.operands[k]
        yield from self.defs


def sites(module: ModuleOp, weights: Weights | None = None, *, everything: bool = False) -> list[Site]:
    """The places of choice of a module that have something to choose, in program order; with `everything`, all.

    Raises PassError for a malformed frequency, and for options on an op that has none to choose from.
    """
    functions = {op.sym_name.data for op in module.walk() if isinstance(op, FuncOp)}
    calls = calls_of(module)
    weights = weights or Weights(calls)
    for op in module.walk():
        if isinstance(op, CallOp) and op.callee.string_value() not in functions and touches_any(op):
            raise PassError(f"call of @{op.callee.string_value()}, which the module does not define", op)
        if FREQUENCY in op.attributes:
            _frequency(op)
        if OPTIONS in op.attributes and isinstance(op, _AGREEING) and touches_any(op):
            raise PassError(
                f"{OPTIONS} on {op.name}, whose tensors have the layouts of the ops around it: it chooses none",
                op,
            )
    found: list[Site] = []
    late: list[Site] = []
    linked = _linked(module)
    for op in module.walk():
        found += _sites_of(op, calls, weights, linked)
        if isinstance(op, FuncOp):
            late += _results(op, calls.get(op.sym_name.data, []))
    found += late
    if not everything:
        found = [site for site in found if any(is_any(value.type) for value in site.values())]
    return _with_sources(found)


def touches_any(op: Operation) -> bool:
    """Whether a layout is still to be chosen for an operand or a result of `op`."""
    return any(is_tensor(value.type) and is_any(value.type) for value in (*op.operands, *op.results))


def _with_sources(found: list[Site]) -> list[Site]:
    """`found`, behind one place for each value that they use and none of them makes: it comes as its type says."""
    made = {value for site in found for value in site.defs}
    given: dict[SSAValue, None] = {}
    for site in found:
        given.update((value, None) for value in site.values() if value not in made)
    return [
        *(
            Site(
                value.owner if isinstance(value.owner, Operation) else user, (), (value,), 1, True, value.type
            )
            for value, user in ((value, _user(value)) for value in given)
        ),
        *found,
    ]


def _user(value: SSAValue) -> Operation:
    """The op to blame for an argument of a block: the one around it."""
    owner = value.owner
    around = owner if isinstance(owner, Operation) else owner.parent_op()
    return around if around is not None else next(iter(value.uses)).operation


def _linked(module: ModuleOp) -> set[Use]:
    """The uses that `RegionLinks` and branches say themselves."""
    return {use for op in module.walk() for use, _ in _branches(op)} | {
        (link_op, k)
        for op in module.walk()
        if isinstance(op, RegionLinks)
        for link in op.links()
        for link_op, k in link.uses
    }


def _branches(op: Operation) -> Iterator[tuple[Use, SSAValue]]:
    """The operands that a branch of `cf` passes on, each with the argument of the block that takes it."""
    if isinstance(op, cf.BranchOp):
        taken = [(op.successor, 0)]
    elif isinstance(op, cf.ConditionalBranchOp):
        taken = [(op.then_block, 1), (op.else_block, 1 + len(op.then_arguments))]
    else:
        return
    for block, first in taken:
        for k, arg in enumerate(block.args):
            yield (op, first + k), arg


def calls_of(module: ModuleOp) -> dict[str, list[CallOp]]:
    """The calls of each function, by its name."""
    calls: dict[str, list[CallOp]] = {}
    for op in module.walk():
        if isinstance(op, CallOp):
            calls.setdefault(op.callee.string_value(), []).append(op)
    return calls


def _sites_of(
    op: Operation, calls: dict[str, list[CallOp]], weights: Weights, linked: set[Use]
) -> Iterator[Site]:
    match op:
        case ModuleOp():
            pass
        case FuncOp():
            yield from _function(op, calls.get(op.sym_name.data, []))
        case scf.ForOp():
            yielded = op.body.block.last_op
            for k, (arg, result) in enumerate(zip(op.body.block.args[1:], op.results, strict=True)):
                yield from _slot(op, ((op, 3 + k), (yielded, k)), (arg, result))
        case scf.IfOp():
            ends = [block.last_op for region in op.regions for block in region.blocks]
            for k, result in enumerate(op.results):
                yield from _slot(op, tuple((end, k) for end in ends), (result,))
        case scf.WhileOp():
            before, after = op.before_region.block, op.after_region.block
            for k, arg in enumerate(before.args):
                yield from _slot(op, ((op, k), (after.last_op, k)), (arg,))
            for k, (arg, result) in enumerate(zip(after.args, op.results, strict=True)):
                yield from _slot(op, ((before.last_op, 1 + k),), (arg, result))
        case ReturnOp() | CallOp() | scf.ConditionOp():
            pass
        case scf.YieldOp() if isinstance(op.parent_op(), scf.ForOp | scf.IfOp | scf.WhileOp):
            pass
        case _:
            yield from _ordinary(op, weights, linked)


def _ordinary(op: Operation, weights: Weights, linked: set[Use]) -> Iterator[Site]:
    """An op with options. What crosses its regions is row-major (or as its types say), but for what it links."""
    links = list(op.links()) if isinstance(op, RegionLinks) else []
    for link in links:
        yield from _slot(op, tuple(link.uses), tuple(link.values))
    bound = {value for link in links for value in link.values}
    own = [(op, k) for k, value in enumerate(op.operands) if has_layout(value.type)]
    uses = tuple([use for use in own if use not in linked])
    defs = tuple([value for value in op.results if has_layout(value.type) and value not in bound])
    if len(uses) < len(own) or bound:
        # Options speak of all tensors of an op: where some are linked, the others are row-major one by one.
        for use in uses:
            yield from _slot(op, (use,), (), _row_major(op.operands[use[1]]))
        for value in defs:
            yield from _slot(op, (), (value,), _row_major(value))
    elif uses or defs:
        yield Site(op, uses, defs, weights.of(op))
    for region in op.regions:
        for number, block in enumerate(region.blocks):
            for arg in block.args:
                if has_layout(arg.type) and arg not in bound:
                    uses = _incoming(block, arg) if number else ()
                    yield from _slot(op, uses, (arg,), None if uses else _row_major(arg))


def _row_major(value: SSAValue) -> Attribute:
    """The type of `value` as it is where its layout is known, and else row-major."""
    return with_format(value.type, plain(value)) if is_any(value.type) else value.type


def _incoming(block: Block, arg: BlockArgument) -> tuple[Use, ...]:
    """The operands of branches that come in as `arg`."""
    region = block.parent
    ends = [other.last_op for other in region.blocks] if region is not None else []
    return tuple(use for end in ends if end is not None for use, taken in _branches(end) if taken is arg)


def _function(op: FuncOp, calls: list[CallOp]) -> Iterator[Site]:
    """Parameters agree with the arguments of every call."""
    if not op.body.blocks:
        for call in calls:
            for k, declared in enumerate(op.function_type.inputs):
                yield from _slot(op, ((call, k),), (), declared)
            for result in call.results:
                yield from _slot(op, (), (result,))
        return
    for number, block in enumerate(op.body.blocks):
        for k, arg in enumerate(block.args):
            if number:
                uses = _incoming(block, arg)
                known = None if uses or not has_layout(arg.type) else _row_major(arg)
                yield from _slot(op, uses, (arg,), known)
            else:
                yield from _slot(op, tuple((call, k) for call in calls), (arg,))


def _results(op: FuncOp, calls: list[CallOp]) -> Iterator[Site]:
    """What a function returns agrees with what its calls give. An open result that no one calls for is free."""
    returns = [block.last_op for block in op.body.blocks if isinstance(block.last_op, ReturnOp)]
    for k, declared in enumerate(op.function_type.outputs):
        defs = tuple(call.results[k] for call in calls)
        fixed = is_tensor(declared) and not is_any(declared)
        if fixed or defs or len(returns) > 1:
            yield from _slot(op, tuple((end, k) for end in returns), defs, declared if fixed else None)


def _slot(
    op: Operation,
    uses: tuple[tuple[Operation | None, int], ...],
    defs: tuple[SSAValue, ...],
    declared: Attribute | None = None,
) -> Iterator[Site]:
    known = tuple((user, k) for user, k in uses if user is not None)
    types = [user.operands[k].type for user, k in known] + [value.type for value in defs]
    if types and all(has_layout(type) for type in types):
        shapes = {shape_of(value) for value in (*(user.operands[k] for user, k in known), *defs)}
        if len(shapes) == 1:
            yield Site(op, known, defs, 1, True, declared)
            return
    if any(is_tensor(type) and is_any(type) for type in types):
        other = next((type for type in types if not has_layout(type)), types[-1])
        raise PassError(
            f"{name_of_op(op)} makes one tensor of {types[0]} and {other}: they have no layout in common", op
        )


class Weights:
    """How often ops run, worked out once per block. `calls` has those of each function, by its name."""

    def __init__(self, calls: Mapping[str, Sequence[CallOp]] | None = None) -> None:
        self._calls = calls or {}
        self._blocks: dict[Block | None, int] = {}
        self._functions: dict[FuncOp, int] = {}
        self._clipped: dict[Operation, int] = {}
        """By the first op of a block that runs too often, how often that is."""

    def omissions(self) -> Iterator[Omission]:
        """The blocks that run more often than is counted."""
        for op, often in self._clipped.items():
            yield Omission(op, f"the block of {op.name} runs {often} times and is counted as {MOST} times")

    def of(self, op: Operation) -> int:
        block = op.parent
        weight = self._blocks.get(block)
        if weight is None:
            function = _function_around(op)
            often = 1 if function is None else self._function(function)
            runs = weight_of(op) * often
            if runs > MOST:
                self._clipped[op] = runs
            weight = self._blocks[block] = min(runs, MOST)
        return weight

    def _function(self, function: FuncOp) -> int:
        if function not in self._functions:
            self._functions[function] = 1  # for calls of itself
            calls = self._calls.get(function.sym_name.data, ())
            given = FREQUENCY in function.attributes
            self._functions[function] = (
                _frequency(function) if given else sum(map(self.of, calls)) if calls else 1
            )
        return self._functions[function]

    def around(self, value: SSAValue) -> int:
        """How often the block runs in which a value is defined: its reorders stand right behind it."""
        owner = value.owner
        if isinstance(owner, Operation):
            return self.of(owner)
        first = owner.first_op
        return 1 if first is None else self.of(first)


def _function_around(op: Operation) -> FuncOp | None:
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, FuncOp):
        parent = parent.parent_op()
    return parent


def weight_of(op: Operation) -> int:
    """How often `op` runs per run of its function."""
    weight = 1
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, FuncOp):
        weight *= _frequency(parent)
        parent = parent.parent_op()
    return weight


def _frequency(op: Operation) -> int:
    given = op.attributes.get(FREQUENCY)
    if given is not None:
        if not isinstance(given, IntegerAttr) or given.value.data < 0:
            raise PassError(f"{FREQUENCY} = {given} is no count: a whole number from 0 on", op)
        return given.value.data
    if isinstance(op, scf.ForOp):
        bounds = [_constant(value) for value in (op.lb, op.ub, op.step)]
        low, high, step = bounds
        if low is not None and high is not None and step:
            return max(-(-(high - low) // step), 0)
        return LOOP_TRIPS
    return LOOP_TRIPS if isinstance(op, scf.WhileOp) else 1


def _constant(value: SSAValue) -> int | None:
    owner = value.owner
    if isinstance(owner, ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None
