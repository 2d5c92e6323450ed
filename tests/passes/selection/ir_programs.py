"""Random small programs as IR, and their cheapest layouts by trying everything.

A program has options carried by ops, elementwise ops of `nn`, loops, branches, calls, fixed types at its borders, and
formats with and without pads. What a choice costs is read off the IR here, by other means than the passes have: formats
are compared by their addresses, what pads hold is computed with NumPy, and the cheapest reorders of a value are found
by a search over sets of what has been made. Nothing of `passes.selection` is used.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import product
from typing import Any, cast

import numpy as np
from xdsl.dialects import scf
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from layout_ir.dialects import nn
from layout_ir.dialects.layout import FormatAttr, OptionAttr, ReorderOp
from layout_ir.format import Format

SHAPE = (3, 5)
ANY = "tensor<3x5xf32, #layout.any>"
MAPS = (
    "[a, b]",
    "[b, a]",
    "[a, b, b:4]",
    "[b, a, a:2]",
    "[a, b, b:8]",
    "[b, a, b:2]",
)
SAME = {4: 2}
"""Spellings of the same bytes at this shape: one format."""
FUNCTIONS: dict[type[Operation], Callable[..., Any]] = {
    nn.ReluOp: partial(np.maximum, 0.0),
    nn.NegOp: np.negative,
    nn.ExpOp: np.exp,
    nn.AddOp: np.add,
    nn.SubOp: np.subtract,
    nn.MulOp: np.multiply,
}
FREE = 1 << 60

Held = float | None
State = tuple[int, Held]
"""A map, by its number in MAPS, and what the pads hold (None: anything)."""


def format_text(map: int, held: Held = None) -> str:
    pad = "" if held is None else f", pad = {held:g}"
    return f"#layout.format<(a, b) : {MAPS[map]}{pad}>"


# Costs ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Costs:
    """Costs of a program: of moves between maps (None: not possible), of fills, of `nn` ops by name and map."""

    moves: tuple[tuple[int | None, ...], ...]
    fills: tuple[int, ...]
    ops: dict[tuple[str, int], int]
    maps: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        entries: list[Any] = []
        for i in self.maps:
            for j in self.maps:
                a, b = SAME.get(i, i), SAME.get(j, j)
                cost = self.fills[a] if a == b else self.moves[a][b]
                if cost is not None:
                    source, target = (format_text(k)[len("#layout.format<") : -1] for k in (i, j))
                    entries.append({"from": source, "to": target, "cost": cost})
        ops = [
            {"name": name, "ins": [self._plain(k)] * count, "outs": [self._plain(k)], "cost": cost}
            for k in self.maps
            for (name, known), cost in self.ops.items()
            for count in [2 if name in ("nn.add", "nn.sub", "nn.mul") else 1]
            if known == SAME.get(k, k)
        ]
        return {"unit": "points", "reorder": entries, "op": ops, "missing": "forbid"}

    @staticmethod
    def _plain(map: int) -> str:
        return format_text(map)[len("#layout.format<") : -1]


def random_costs(rng: random.Random, maps: tuple[int, ...], missing: float) -> Costs:
    moves = [tuple(None if rng.random() < missing else rng.randint(1, 20) for _ in MAPS) for _ in MAPS]
    fills = [rng.randint(1, 12) for _ in MAPS]
    ops = {(op.name, SAME.get(k, k)): rng.randint(0, 9) for op in FUNCTIONS for k in maps}
    return Costs(tuple(moves), tuple(fills), ops, maps)


# Programs ------------------------------------------------------------------------------------------------------------


class _Writer:
    def __init__(self, rng: random.Random, maps: tuple[int, ...]):
        self.rng = rng
        self.maps = maps
        self.lines: list[str] = []
        self.count = 0
        self.callee: list[str] | None = None

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def held(self) -> Held:
        return self.rng.choice([None, None, 0.0, 0.0, 1.0])

    def options(self, operands: int) -> str:
        found: dict[str, int] = {}
        for _ in range(self.rng.randint(1, 3)):
            ins = ", ".join(format_text(self.rng.choice(self.maps), self.held()) for _ in range(operands))
            outs = format_text(self.rng.choice(self.maps), self.held())
            found[f"ins = [{ins}], outs = [{outs}]"] = self.rng.randint(0, 15)
        return ", ".join(f"#layout.option<{text}, cost = {cost}>" for text, cost in found.items())

    def anchor(self, values: list[str]) -> str:
        ins = [self.rng.choice(values[-3:]) for _ in range(self.rng.choice([1, 1, 2]))]
        out = self.name()
        types = ", ".join([ANY] * len(ins))
        self.lines.append(
            f'{out} = "test.op"({", ".join(ins)}) {{layout.options = [{self.options(len(ins))}]}} : ({types}) -> {ANY}'
        )
        return out

    def source(self) -> str:
        out = self.name()
        self.lines.append(f'{out} = "test.op"() {{layout.options = [{self.options(0)}]}} : () -> {ANY}')
        return out

    def elementwise(self, values: list[str]) -> str:
        out = self.name()
        if self.rng.random() < 0.35:
            op = self.rng.choice(["nn.add", "nn.sub", "nn.mul"])
            ins = f"{self.rng.choice(values[-3:])}, {self.rng.choice(values[-3:])}"
        else:
            op, ins = (
                self.rng.choice(["nn.relu", "nn.relu", "nn.neg", "nn.exp"]),
                self.rng.choice(values[-3:]),
            )
        self.lines.append(f"{out} = {op} {ins} : {ANY}")
        return out

    def step(self, values: list[str]) -> str:
        return self.anchor(values) if self.rng.random() < 0.5 else self.elementwise(values)

    def region(self, values: list[str]) -> str:
        out, kind, x = (
            self.name(),
            self.rng.choice(["for", "if", "while", "call"]),
            self.rng.choice(values[-3:]),
        )
        frequency = self.rng.choice(["", f" {{layout.frequency = {self.rng.randint(0, 4)}}}"])
        if kind == "for":
            inner = self.name()
            high = self.rng.choice(["%one", "%three", "%n"])
            self.lines.append(
                f"{out} = scf.for %k{self.count} = %zero to {high} step %one iter_args({inner} = {x}) -> ({ANY}) {{"
            )
            self.lines.append(f"scf.yield {self.step([*values, inner])} : {ANY}")
            self.lines.append(f"}}{frequency}")
        elif kind == "if":
            self.lines.append(f"{out} = scf.if %p -> ({ANY}) {{")
            self.lines.append(f"scf.yield {self.step(values)} : {ANY}")
            self.lines.append("} else {")
            self.lines.append(f"scf.yield {self.rng.choice(values)} : {ANY}")
            self.lines.append(f"}}{frequency}")
        elif kind == "while":
            before, after = self.name(), self.name()
            self.lines.append(f"{out} = scf.while ({before} = {x}) : ({ANY}) -> {ANY} {{")
            self.lines.append(f"scf.condition(%p) {before} : {ANY}")
            self.lines.append("} do {")
            self.lines.append(f"^bb0({after}: {ANY}):")
            self.lines.append(f"scf.yield {self.step([*values, after])} : {ANY}")
            self.lines.append("}" + frequency.replace(" {", " attributes {"))
        else:
            if self.callee is None:
                kept, self.lines = self.lines, []
                inner = self.name()
                result = self.step([inner])
                self.callee = [f"func.func private @callee({inner} : {ANY}) -> {ANY} {{"]
                self.callee += [*self.lines, f"func.return {result} : {ANY}", "}"]
                self.lines = kept
            self.lines.append(f"{out} = func.call @callee({x}) : ({ANY}) -> {ANY}")
        return out

    def program(self, ops: int) -> str:
        rng = self.rng
        given = f"tensor<3x5xf32, {format_text(rng.choice(self.maps), self.held())}>"
        x = self.name()
        self.lines.append(f"{x} = layout.reorder %x : {given} -> {ANY}")
        values = [x, self.source()] if rng.random() < 0.3 else [x]
        with_region = rng.randrange(ops)
        for k in range(ops):
            values.append(self.region(values) if k == with_region else self.step(values))
        wanted = [
            f"tensor<3x5xf32, {format_text(rng.choice(self.maps), self.held())}>"
            for _ in range(rng.choice([1, 1, 2]))
        ]
        returned: list[str] = []
        for type, value in zip(wanted, reversed(values), strict=False):
            returned.append(self.name())
            self.lines.append(f"{returned[-1]} = layout.reorder {value} : {ANY} -> {type}")
        types = ", ".join(wanted[: len(returned)])
        head = [f"func.func @main(%x : {given}, %p : i1, %n : index) -> ({types}) {{"]
        head += ["%zero = arith.constant 0 : index", "%one = arith.constant 1 : index"]
        head += ["%three = arith.constant 3 : index"]
        body = [*head, *self.lines, f"func.return {', '.join(returned)} : {types}", "}"]
        return "\n".join([*body, *(self.callee or [])])


def random_ir(rng: random.Random) -> tuple[str, Costs]:
    """The text of a program and its costs; of 2 to 6 formats."""
    count = rng.randint(2, 6)
    maps = (0, *sorted(rng.sample(range(1, len(MAPS)), count - 1)))
    missing = rng.choice([0, 0, 0.2, 0.6])
    writer = _Writer(rng, maps)
    return writer.program(rng.randint(1, 4 if count < 5 else 3)), random_costs(rng, maps, missing)


# Reading the IR ------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _addresses(fmt: Format) -> bytes:
    return fmt.bind(SHAPE).addresses().tobytes()


def map_of(fmt: Format) -> int:
    """The number of the map that puts every element where `fmt` does."""
    return next(k for k in range(len(MAPS)) if _addresses(_FORMATS[k]) == _addresses(fmt))


_FORMATS = [Format.parse(f"(a, b) : {text}") for text in MAPS]
PADDED = [fmt.bind(SHAPE).padded_shape != SHAPE for fmt in _FORMATS]


def state_of(fmt: Format) -> State:
    known = map_of(fmt)
    held = {"undef": None, "zero": 0.0}.get(fmt.pad, fmt.pad) if isinstance(fmt.pad, str) else float(fmt.pad)
    return known, held if PADDED[known] else None  # pyright: ignore


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
        self.slots: list[tuple[list[SSAValue], list[SSAValue]]] = []
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
                    self._slot([call.operands[k] for call in here], [arg])
            end = function.body.block.last_op
            assert isinstance(end, ReturnOp)
            for k, value in enumerate(end.operands):
                if here or fixed_state(value) is not None:
                    self._slot([value], [call.results[k] for call in here])
        for op in module.walk():
            self._read(op)
        self.numbers |= {
            float(result)
            for op in self.ops
            for held in product(sorted(self.numbers), repeat=len(op.operands))
            if type(op) in FUNCTIONS
            for result in [FUNCTIONS[type(op)](*held)]
        }
        self.nodes = [*self._slot_nodes(), *(self._node(op) for op in self.ops)]

    def _slot(self, uses: list[SSAValue], defs: list[SSAValue]) -> None:
        self.slots.append((uses, defs))
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
                    self._slot([op.operands[3 + k], end.operands[k]], [arg, result])
            case scf.IfOp():
                for k, result in enumerate(op.results):
                    self._slot([region.block.last_op.operands[k] for region in op.regions], [result])  # pyright: ignore
            case scf.WhileOp():
                before, after = op.before_region.block, op.after_region.block
                for k, arg in enumerate(before.args):
                    self._slot([op.operands[k], after.last_op.operands[k]], [arg])  # pyright: ignore
                for k, (arg, result) in enumerate(zip(after.args, op.results, strict=True)):
                    self._slot([before.last_op.operands[1 + k]], [arg, result])  # pyright: ignore
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
        """The maps that reach `value` through ops and slots that keep them."""
        root = self._find(value)
        near = {m for other, asked in self.asked.items() if self._find(other) is root for m in asked}
        return sorted(near | {0})

    def held(self, map: int) -> list[Held]:
        return [None, *sorted(self.numbers)] if PADDED[map] else [None]

    def _slot_nodes(self) -> Iterator[Node]:
        for uses, defs in self.slots:
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


# Trying everything -------------------------------------------------------------------------------------------------


def made_from(costs: Costs) -> Callable[[State, frozenset[State]], int]:
    """The cheapest cost of having `needed`, starting from one state of a value: a search over sets of states."""
    numbers = {SAME.get(m, m) for m in costs.maps}

    def step(source: State, target: State) -> int:
        (m, held), (n, wanted) = source, target
        if m == n:
            return 0 if wanted is None or wanted == held else costs.fills[m]
        cost = costs.moves[m][n]
        return FREE if cost is None else cost

    @cache
    def cheapest(root: State, needed: frozenset[State]) -> int:
        nodes = list(needed | {(m, None) for m in numbers} | {root})
        queue: list[tuple[int, int, frozenset[State]]] = [(0, 0, frozenset([root]))]
        best: dict[frozenset[State], int] = {}
        count = 0
        while queue:
            cost, _, have = heapq.heappop(queue)
            if needed <= have:
                return cost
            if have in best:
                continue
            best[have] = cost
            for target in nodes:
                if target not in have:
                    price = min(step(source, target) for source in have)
                    if price < FREE:
                        count += 1
                        heapq.heappush(queue, (cost + price, count, have | {target}))
        return FREE

    return cheapest


def brute_force(module: ModuleOp, costs: Costs) -> int | None:
    """The least cost of all ways to lay out the program; None where there is none."""
    reading = Reading(module, costs)
    cheapest = made_from(costs)
    # Each value is priced as soon as its maker and its users have been decided.
    last: dict[SSAValue, int] = {}
    for k, node in enumerate(reading.nodes):
        for value in (*node.uses, *node.defs):
            last[value] = k
    ready = [[value for value, at in last.items() if at == k] for k in range(len(reading.nodes))]
    root: dict[SSAValue, State] = {}
    needed: dict[SSAValue, list[State]] = {value: [] for value in last}
    best = FREE

    def visit(k: int, cost: int) -> None:
        nonlocal best
        if cost >= best:
            return
        if k == len(reading.nodes):
            best = cost
            return
        node = reading.nodes[k]
        for ins, outs, price in sorted(node.ways, key=lambda way: way[2]):
            for value, state in zip(node.uses, ins, strict=True):
                needed[value].append(state)
            for value, state in zip(node.defs, outs, strict=True):
                root[value] = state
            total = cost + price
            for value in ready[k]:
                if total < best:
                    made = cheapest(root[value], frozenset(needed[value]))
                    # What is impossible stays so where it never happens.
                    total += made if made >= FREE else times_of(value) * made
            visit(k + 1, total)
            for value in node.uses:
                needed[value].pop()

    visit(0, 0)
    return None if best >= FREE else best


# What came out -------------------------------------------------------------------------------------------------------


def priced(module: ModuleOp, original: ModuleOp, costs: Costs) -> int:
    """What a program costs in which everything has been chosen; `original` has the options that its ops had."""
    options = iter([carried(op) for op in original.walk() if op.name == "test.op"])
    total = 0
    for op in module.walk():
        if op.name == "test.op":
            total += times(op) * min(option.cost for option in next(options) if _runs(op, option))
        elif isinstance(op, ReorderOp):
            (m, held), (n, wanted) = (_state(value) for value in (op.input, op.result))
            if m != n:
                cost = costs.moves[m][n]
                assert cost is not None
            else:
                cost = 0 if wanted is None or wanted == held else costs.fills[m]
            total += times(op) * cost
        elif type(op) in FUNCTIONS:
            total += times(op) * costs.ops[op.name, _state(op.results[0])[0]]
    return total


def _runs(op: Operation, option: Any) -> bool:
    """Whether the option takes the operands of `op` as they are, and makes what the types of its results say."""

    def fits(given: State, wanted: State) -> bool:
        return given[0] == wanted[0] and wanted[1] in (None, given[1])

    ins = [fits(_state(value), state_of(fmt)) for value, fmt in zip(op.operands, option.ins, strict=True)]
    outs = [fits(state_of(fmt), _state(value)) for value, fmt in zip(op.results, option.outs, strict=True)]
    return all(ins) and all(outs)


def _state(value: SSAValue) -> State:
    state = fixed_state(value)
    assert state is not None
    return state
