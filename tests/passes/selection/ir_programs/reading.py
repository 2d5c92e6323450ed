"""The choices of a program, as its text has them: what each way asks of values that it uses, and makes of others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

from xdsl.dialects import scf
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from layout_ir.dialects.layout import FormatAttr, OptionAttr, ReorderOp
from tests.passes.selection.ir_programs.costs import Costs
from tests.passes.selection.ir_programs.formats import FUNCTIONS, PADDED, PadValue, State, state_of


def fixed_state(value: SSAValue) -> State | None:
    encoding = value.type.encoding  # pyright: ignore
    return state_of(encoding.data) if isinstance(encoding, FormatAttr) else None


@dataclass(eq=False)
class Node:
    """One thing to choose: what each way asks of `uses` and makes of `defs`, and what it costs."""

    uses: Sequence[SSAValue]
    defs: Sequence[SSAValue]
    ways: list[tuple[tuple[State, ...], tuple[State, ...], int]]


def frequency(op: Operation) -> int:
    given = op.attributes.get("layout.frequency")
    if isinstance(given, IntegerAttr):
        return given.value.data
    if isinstance(op, scf.ForOp):
        bound = op.ub.owner
        return bound.value.value.data if isinstance(bound, Operation) else 10  # pyright: ignore
    return 10 if isinstance(op, scf.WhileOp) else 1


def times(op: Operation | None) -> int:
    """How often the block runs that `op` stands in."""
    count = 1
    while op is not None and not isinstance(parent := op.parent_op(), FuncOp | ModuleOp | None):
        count *= frequency(parent)
        op = parent
    return count


def times_of(value: SSAValue) -> int:
    return times(value.owner.first_op if isinstance(value.owner, Block) else value.owner)


def is_tensor(value: SSAValue) -> bool:
    return "tensor" in str(value.type)


def carried(op: Operation) -> list[Any]:
    """The options that `op` carries."""
    options = op.attributes.get("layout.options")
    entries = cast("ArrayAttr[Attribute]", options).data if isinstance(options, ArrayAttr) else ()
    return [entry.data for entry in entries if isinstance(entry, OptionAttr)]


class Reading:
    """The choices of a program, as the text has them."""

    def __init__(self, module: ModuleOp, costs: Costs):
        self.costs = costs
        self.constraints: list[tuple[list[SSAValue], list[SSAValue]]] = []
        self.ops: list[Operation] = []
        self.parents: dict[SSAValue, SSAValue] = {}
        self.asked: dict[SSAValue, set[int]] = {}
        self.numbers: set[float] = {0.0}
        functions = {op.sym_name.data: op for op in module.walk() if isinstance(op, FuncOp)}
        calls = [op for op in module.walk() if isinstance(op, CallOp)]
        for name, function in functions.items():
            here = [op for op in calls if op.callee.string_value() == name]
            for k, arg in enumerate(function.body.block.args):
                if is_tensor(arg):
                    self._equality([call.operands[k] for call in here], [arg])
            end = function.body.block.last_op
            assert isinstance(end, ReturnOp)
            for k, value in enumerate(end.operands):
                if here or fixed_state(value) is not None:
                    self._equality([value], [call.results[k] for call in here])
        for op in module.walk():
            self._read(op)
        self.numbers = self._worth_writing()
        self.nodes = [*self._slot_nodes(), *(self._node(op) for op in self.ops)]

    def _worth_writing(self) -> set[float]:
        """What pads may be given: 0, 1 and what is asked for, with either sign, what ops make of these, and of all that
        what ops make into something that is asked for, on whatever way."""
        asked = {0.0, *self.numbers}
        base = asked | {1.0} | {-held for held in (*asked, 1.0)}
        functions = {(FUNCTIONS[type(op)], len(op.operands)) for op in self.ops if type(op) in FUNCTIONS}
        numbers = base | {
            float(function(*held))
            for function, count in functions
            for held in product(sorted(base), repeat=count)
        }
        made = [
            (held, float(function(*held)))
            for function, count in functions
            for held in product(sorted(numbers), repeat=count)
        ]
        useful = set[float]()
        new = asked
        while new - useful:
            useful |= new
            new = {x for held, result in made if result in useful for x in held}
        return useful

    def _equality(self, uses: list[SSAValue], defs: list[SSAValue]) -> None:
        self.constraints.append((uses, defs))
        for value in (*uses, *defs):
            self._join(value, (uses or defs)[0])

    def _find(self, value: SSAValue) -> SSAValue:
        while value in self.parents:
            value = self.parents[value]
        return value

    def _join(self, a: SSAValue, b: SSAValue) -> None:
        a, b = self._find(a), self._find(b)
        if a is not b:
            self.parents[a] = b

    def _ask(self, value: SSAValue, state: State) -> None:
        self.asked.setdefault(value, set()).add(state[0])
        if state[1] is not None:
            self.numbers.add(state[1])

    def _read(self, op: Operation) -> None:
        for value in (
            *op.operands,
            *op.results,
            *(arg for r in op.regions for b in r.blocks for arg in b.args),
        ):
            if is_tensor(value) and (state := fixed_state(value)) is not None:
                self._ask(value, state)
        match op:
            case scf.ForOp():
                end = op.body.block.last_op
                assert end is not None
                for k, (arg, result) in enumerate(zip(op.body.block.args[1:], op.results, strict=True)):
                    self._equality([op.operands[3 + k], end.operands[k]], [arg, result])
            case scf.IfOp():
                for k, result in enumerate(op.results):
                    self._equality([region.block.last_op.operands[k] for region in op.regions], [result])  # pyright: ignore
            case scf.WhileOp():
                before, after = op.before_region.block, op.after_region.block
                for k, arg in enumerate(before.args):
                    self._equality([op.operands[k], after.last_op.operands[k]], [arg])  # pyright: ignore
                for k, (arg, result) in enumerate(zip(after.args, op.results, strict=True)):
                    self._equality([before.last_op.operands[1 + k]], [arg, result])  # pyright: ignore
            case _ if op.name == "test.op" or type(op) in FUNCTIONS or isinstance(op, ReorderOp):
                self.ops.append(op)
                for option in carried(op):
                    for value, fmt in zip(
                        (*op.operands, *op.results), (*option.ins, *option.outs), strict=True
                    ):
                        self._ask(value, state_of(fmt))
                if isinstance(op, ReorderOp) and (state := fixed_state(op.result)) is not None:
                    self._ask(op.input, state)
                elif op.name != "test.op":
                    for value in op.operands:
                        self._join(value, op.results[0])
            case _:
                pass

    def maps(self, value: SSAValue) -> list[int]:
        """The maps that reach `value` through ops and constraints that keep them."""
        root = self._find(value)
        near = {m for other, asked in self.asked.items() if self._find(other) is root for m in asked}
        return sorted(near | {0})

    def held(self, map: int) -> list[PadValue]:
        return [None, *sorted(self.numbers)] if PADDED[map] else [None]

    def _slot_nodes(self) -> Iterator[Node]:
        for uses, defs in self.constraints:
            values = [*uses, *defs]
            fixed = {state for value in (defs or uses) if (state := fixed_state(value)) is not None}
            states = fixed or {(m, held) for m in self.maps(values[0]) for held in self.held(m)}
            ways = [((state,) * len(uses), (state,) * len(defs), 0) for state in sorted(states, key=str)]
            yield Node(uses, defs, ways)

    def _node(self, op: Operation) -> Node:
        uses, defs = list(op.operands), list(op.results)
        ways: list[tuple[tuple[State, ...], tuple[State, ...], int]] = []
        weight = times(op)
        if op.name == "test.op":
            for option in carried(op):
                states = [tuple(map(state_of, formats)) for formats in (option.ins, option.outs)]
                ways.append((states[0], states[1], option.cost * weight))
        elif isinstance(op, ReorderOp):
            fixed = fixed_state(op.result)
            states = {fixed} if fixed else {(m, held) for m in self.maps(op.input) for held in self.held(m)}
            ways = [((state,), (state,), 0) for state in sorted(states, key=str)]
        else:
            for m in self.maps(op.results[0]):
                for held in product(self.held(m), repeat=len(uses)):
                    left = None if None in held else float(FUNCTIONS[type(op)](*held))
                    cost = self.costs.ops[op.name, m] * weight
                    ways.append((tuple((m, h) for h in held), ((m, left if PADDED[m] else None),), cost))
        return Node(uses, defs, ways)
