"""A random program: ops that carry options, elementwise ops of `nn`, one region or call, fixed types at the borders."""

from __future__ import annotations

import random

from tests.passes.selection.ir_programs.costs import Costs, random_costs
from tests.passes.selection.ir_programs.formats import ANY, FEW, MAPS, PadValue, format_text, typed


def random_ir(rng: random.Random) -> tuple[str, Costs]:
    """The text of a program and its costs; of 2 to 6 formats."""
    count = rng.randint(2, 6)
    maps = (0, *sorted(rng.sample(range(1, FEW), count - 1)))
    missing = rng.choice([0, 0, 0.2, 0.6])
    writer = _Writer(rng, maps)
    return writer.program(rng.randint(1, 4 if count < 5 else 3)), random_costs(rng, maps, missing)


def random_large_ir(rng: random.Random, options: int) -> tuple[str, Costs]:
    """The text and costs of a program whose ops carry up to `options` options, of as many formats as that takes."""
    count = min(len(MAPS), max(3, options // 2))
    maps = (0, *sorted(rng.sample(range(1, len(MAPS)), count - 1)))
    writer = _Writer(rng, maps, options)
    ops = rng.randint(1, 4 if options <= 5 else 2)
    return writer.program(ops), random_costs(rng, maps, rng.choice([0, 0, 0.3]))


class _Writer:
    def __init__(self, rng: random.Random, maps: tuple[int, ...], most: int = 3):
        self.most = most
        self.rng = rng
        self.maps = maps
        self.lines: list[str] = []
        self.count = 0
        self.callee: list[str] = []

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def program(self, ops: int) -> str:
        rng = self.rng
        given = typed(rng.choice(self.maps), self.held())
        x = self.name()
        self.lines.append(f"{x} = layout.reorder %x : {given} -> {ANY}")
        values = [x, self.source()] if rng.random() < 0.3 else [x]
        with_region = rng.randrange(ops)
        for k in range(ops):
            values.append(self.region(values) if k == with_region else self.step(values))
        wanted = [typed(rng.choice(self.maps), self.held()) for _ in range(rng.choice([1, 1, 2]))]
        returned: list[str] = []
        for type, value in zip(wanted, reversed(values), strict=False):
            returned.append(self.name())
            self.lines.append(f"{returned[-1]} = layout.reorder {value} : {ANY} -> {type}")
        types = ", ".join(wanted[: len(returned)])
        head = [f"func.func @main(%x : {given}, %p : i1, %n : index) -> ({types}) {{"]
        head += ["%zero = arith.constant 0 : index", "%one = arith.constant 1 : index"]
        head += ["%three = arith.constant 3 : index"]
        body = [*head, *self.lines, f"func.return {', '.join(returned)} : {types}", "}"]
        return "\n".join([*body, *self.callee])

    # Ops that carry options, elementwise ops ------------------------------------------------------------------------

    def held(self) -> PadValue:
        return self.rng.choice([None, None, 0.0, 0.0, 1.0])

    def options(self, operands: int) -> str:
        found: dict[str, int] = {}
        for _ in range(self.rng.randint(1 if self.most <= 3 else 2, self.most)):
            ins = ", ".join(format_text(self.rng.choice(self.maps), self.held()) for _ in range(operands))
            outs = format_text(self.rng.choice(self.maps), self.held())
            found[f"ins = [{ins}], outs = [{outs}]"] = self.rng.randint(0, 15)
        return ", ".join(f"#layout.option<{text}, cost = {cost}>" for text, cost in found.items())

    def carrying(self, ins: list[str]) -> str:
        out = self.name()
        types = ", ".join([ANY] * len(ins))
        options = self.options(len(ins))
        self.lines.append(
            f'{out} = "test.op"({", ".join(ins)}) {{layout.options = [{options}]}} : ({types}) -> {ANY}'
        )
        return out

    def source(self) -> str:
        return self.carrying([])

    def anchor(self, values: list[str]) -> str:
        return self.carrying([self.rng.choice(values[-3:]) for _ in range(self.rng.choice([1, 1, 2]))])

    def elementwise(self, values: list[str]) -> str:
        out = self.name()
        binary = self.rng.random() < 0.35
        names = ["nn.add", "nn.sub", "nn.mul"] if binary else ["nn.relu", "nn.relu", "nn.neg", "nn.exp"]
        op = self.rng.choice(names)
        ins = ", ".join(self.rng.choice(values[-3:]) for _ in range(1 + binary))
        self.lines.append(f"{out} = {op} {ins} : {ANY}")
        return out

    def step(self, values: list[str]) -> str:
        return self.anchor(values) if self.rng.random() < 0.5 else self.elementwise(values)

    # Regions and calls ----------------------------------------------------------------------------------------------

    def region(self, values: list[str]) -> str:
        """Something with a body of one step on the values so far and one that it hands in: x."""
        out = self.name()
        kind = self.rng.choice(["for", "if", "while", "call"])
        x = self.rng.choice(values[-3:])
        frequency = self.rng.choice(["", f" {{layout.frequency = {self.rng.randint(0, 4)}}}"])
        match kind:
            case "for":
                self.loop(out, values, x, frequency)
            case "if":
                self.branch(out, values, frequency)
            case "while":
                self.open_loop(out, values, x, frequency)
            case _:
                self.call(out, x)
        return out

    def loop(self, out: str, values: list[str], x: str, frequency: str) -> None:
        inner = self.name()
        high = self.rng.choice(["%one", "%three", "%n"])
        self.lines.append(
            f"{out} = scf.for %k{self.count} = %zero to {high} step %one iter_args({inner} = {x}) -> ({ANY}) {{"
        )
        self.lines.append(f"scf.yield {self.step([*values, inner])} : {ANY}")
        self.lines.append(f"}}{frequency}")

    def branch(self, out: str, values: list[str], frequency: str) -> None:
        self.lines.append(f"{out} = scf.if %p -> ({ANY}) {{")
        self.lines.append(f"scf.yield {self.step(values)} : {ANY}")
        self.lines.append("} else {")
        self.lines.append(f"scf.yield {self.rng.choice(values)} : {ANY}")
        self.lines.append(f"}}{frequency}")

    def open_loop(self, out: str, values: list[str], x: str, frequency: str) -> None:
        before, after = self.name(), self.name()
        self.lines.append(f"{out} = scf.while ({before} = {x}) : ({ANY}) -> {ANY} {{")
        self.lines.append(f"scf.condition(%p) {before} : {ANY}")
        self.lines.append("} do {")
        self.lines.append(f"^bb0({after}: {ANY}):")
        self.lines.append(f"scf.yield {self.step([*values, after])} : {ANY}")
        self.lines.append("}" + frequency.replace(" {", " attributes {"))

    def call(self, out: str, x: str) -> None:
        kept, self.lines = self.lines, []
        inner = self.name()
        result = self.step([inner])
        self.callee = [f"func.func private @callee({inner} : {ANY}) -> {ANY} {{"]
        self.callee += [*self.lines, f"func.return {result} : {ANY}", "}"]
        self.lines = [*kept, f"{out} = func.call @callee({x}) : ({ANY}) -> {ANY}"]
