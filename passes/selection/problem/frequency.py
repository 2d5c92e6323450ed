"""How often ops run: what the costs of an op and of the reorders behind it are multiplied by.

A block that runs often weighs more: by `layout.frequency = N` on the op around it, else by the trip count of an
`scf.for` with constant bounds, else by LOOP_TRIPS. A function runs as often as it is called, and once if it is not,
or as its own frequency says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Block, Operation, SSAValue

from layout_ir.diagnostics import PassError

LOOP_TRIPS = 10
"""How often a loop of unknown length is taken to run: enough that what can be hoisted out of it is."""

MOST_RUNS = 1 << 24
"""How often a block runs at most, for selection: more would leave no room for costs in 64 bits. What runs more often is
counted as this often, which is an omission of the problem."""

FREQUENCY = "layout.frequency"
"""The attribute of an op that says how often its regions run per run of the op."""


def calls_of(module: ModuleOp) -> dict[str, list[CallOp]]:
    """The calls of each function, by its name."""
    calls: dict[str, list[CallOp]] = {}
    for op in module.walk():
        if isinstance(op, CallOp):
            calls.setdefault(op.callee.string_value(), []).append(op)
    return calls


class BlockFrequencies:
    """How often ops run, worked out once per block. `calls` has those of each function, by its name."""

    def __init__(self, calls: Mapping[str, Sequence[CallOp]] | None = None) -> None:
        self._calls = calls or {}
        self._blocks: dict[Block | None, int] = {}
        self._functions: dict[FuncOp, int] = {}
        self.clipped: dict[Operation, int] = {}
        """How often each block runs that runs too often, by its first op."""

    def of(self, op: Operation) -> int:
        """How often `op` runs in the program, MOST_RUNS at most. Raises PassError for a malformed frequency."""
        block = op.parent
        weight = self._blocks.get(block)
        if weight is None:
            function = _function_around(op)
            often = 1 if function is None else self._function(function)
            runs = weight_of(op) * often
            if runs > MOST_RUNS:
                self.clipped[op] = runs
            weight = self._blocks[block] = min(runs, MOST_RUNS)
        return weight

    def _function(self, function: FuncOp) -> int:
        """How often `function` runs. Callers are worked out before it, however long a chain of them is."""
        if function in self._functions:
            return self._functions[function]
        begun: list[tuple[FuncOp, Iterator[FuncOp | None]]] = []
        caller: FuncOp | None = function
        while caller is not None or begun:
            if caller is not None:
                self._functions[caller] = 1  # for calls of itself
                begun.append((caller, map(_function_around, self._calls_that_count(caller))))
            caller = next((f for f in begun[-1][1] if f is not None and f not in self._functions), None)
            if caller is None:
                self._settle(begun.pop()[0])
        return self._functions[function]

    def _settle(self, function: FuncOp) -> None:
        """Says how often `function` runs, whose callers are known."""
        calls = self._calls_that_count(function)
        if FREQUENCY in function.attributes:
            self._functions[function] = frequency_of(function)
        elif calls:
            self._functions[function] = sum(map(self.of, calls))

    def _calls_that_count(self, function: FuncOp) -> Sequence[CallOp]:
        return () if FREQUENCY in function.attributes else self._calls.get(function.sym_name.data, ())

    def around(self, value: SSAValue) -> int:
        """How often the block that defines `value` runs, and with it the reorders of the value, right behind it."""
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
        weight *= frequency_of(parent)
        parent = parent.parent_op()
    return weight


def frequency_of(op: Operation) -> int:
    """How often the regions of `op` run per run of `op`. Raises PassError for a malformed `layout.frequency`."""
    given = op.attributes.get(FREQUENCY)
    if given is not None:
        if not isinstance(given, IntegerAttr) or given.value.data < 0:
            raise PassError(f"{FREQUENCY} = {given} is no count: a whole number from 0 on", op)
        return given.value.data
    if op.name == "scf.for":
        low, high, step = map(_constant, op.operands[:3])
        if low is not None and high is not None and step:
            return max(-(-(high - low) // step), 0)
        return LOOP_TRIPS
    return LOOP_TRIPS if op.name == "scf.while" else 1


def _constant(value: SSAValue) -> int | None:
    owner = value.owner
    if isinstance(owner, Operation) and owner.name == "arith.constant":
        number = owner.properties["value"]
        return number.value.data if isinstance(number, IntegerAttr) else None
    return None
