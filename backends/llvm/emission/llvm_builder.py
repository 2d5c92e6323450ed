"""LLVM IR as text, written in its final form.

Strings are an order of magnitude faster than building an IR in Python objects (0.4 ms against 4 to 15 were measured
for a kernel of 150 operations), and no generic optimization runs afterwards: loops, addresses and shuffles
are emitted as they should be. Values are registers ("%7") or sizes; arithmetic on sizes is folded here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from operator import index

from layout_ir.backends.llvm.emission.size_registers import SizeRegisters
from layout_ir.symbolic.symint import Size, SymInt

Value = str | Size
"""An i64: a register, a constant, or a size that `Builder.operand` finds a register for."""


class Builder:
    """One function body under construction.

    Addresses of loads and stores are multiples of `align`. `fences` says whether the target has `arithmetic.fence`.
    `sizes` are the registers of symbolic sizes, which a function for a dynamic shape needs.
    """

    def __init__(self, align: int = 1, *, fences: bool = False, sizes: SizeRegisters | None = None) -> None:
        self.sizes = sizes
        self.align = align
        self.fences = fences
        self.lines: list[str] = []
        self.globals: list[str] = []
        self._next = 0
        self._block = "entry"

    def name(self, stem: str = "") -> str:
        """A fresh register."""
        self._next += 1
        return f"%{stem or 'v'}{self._next}"

    def put(self, text: str) -> str:
        """Emits `<register> = text` and returns the register."""
        register = self.name()
        self.lines.append(f"  {register} = {text}")
        return register

    def do(self, text: str) -> None:
        """Emits an instruction without a result."""
        self.lines.append(f"  {text}")

    def operand(self, value: Value) -> str:
        """`value` as an instruction writes it: the one place that knows the registers of symbolic sizes."""
        if isinstance(value, SymInt):
            assert self.sizes is not None
            return self.sizes.operand(value)
        return str(value)

    # Arithmetic on i64 ------------------------------------------------------------------------------------------

    def add(self, a: Value, b: Value) -> Value:
        """a + b."""
        if not isinstance(a, str) and not isinstance(b, str):
            return a + b
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self.put(f"add nsw i64 {self.operand(a)}, {self.operand(b)}")

    def sub(self, a: Value, b: Value) -> Value:
        """a - b."""
        if not isinstance(a, str) and not isinstance(b, str):
            return a - b
        return a if b == 0 else self.put(f"sub nsw i64 {self.operand(a)}, {self.operand(b)}")

    def mul(self, a: Value, b: Value) -> Value:
        """a * b."""
        if not isinstance(a, str) and not isinstance(b, str):
            return a * b
        if a == 0 or b == 0:
            return 0
        if a == 1 or b == 1:
            return b if a == 1 else a
        return self.put(f"mul nsw i64 {self.operand(a)}, {self.operand(b)}")

    def min(self, a: Value, b: Value) -> Value:
        """The smaller one, as signed numbers."""
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self.select(self.compare("slt", a, b), a, b)

    def max(self, a: Value, b: Value) -> Value:
        """The larger one, as signed numbers."""
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return self.select(self.compare("sgt", a, b), a, b)

    def compare(self, relation: str, a: Value, b: Value) -> str:
        """Whether a and b are in that relation of LLVM's `icmp`: "slt", "eq", ...; an i1."""
        return self.put(f"icmp {relation} i64 {self.operand(a)}, {self.operand(b)}")

    def select(self, flag: str, a: Value, b: Value, type_: str = "i64") -> str:
        """a if `flag`, else b: numbers, or values of another type."""
        return self.put(f"select i1 {flag}, {type_} {self.operand(a)}, {type_} {self.operand(b)}")

    def div(self, a: Value, b: Size) -> Value:
        """Floor of a / b for a >= 0."""
        if not isinstance(a, str):
            return a // b
        return a if b == 1 else self.put(f"udiv i64 {self.operand(a)}, {b}")

    def ceil(self, a: Value, b: Size) -> Value:
        """a / b rounded up, for a >= 0."""
        return self.div(self.add(a, b - 1), b)

    def at(self, pointer: str, offset: Value) -> str:
        """`offset` bytes behind `pointer`."""
        return (
            pointer
            if offset == 0
            else self.put(f"getelementptr i8, ptr {pointer}, i64 {self.operand(offset)}")
        )

    # Memory -----------------------------------------------------------------------------------------------------

    def load(self, type_: str, pointer: str, offset: Value = 0) -> str:
        """Loads a value of that type, `offset` bytes behind `pointer`."""
        return self.put(f"load {type_}, ptr {self.at(pointer, offset)}, align {self.align}")

    def store(self, type_: str, value: str, pointer: str, offset: Value = 0, *, streaming: int = 0) -> None:
        """Stores; `streaming` is the alignment in bytes with which the caches may be bypassed, 0 for never."""
        tail = f"align {streaming}, !nontemporal !0" if streaming else f"align {self.align}"
        self.do(f"store {type_} {value}, ptr {self.at(pointer, offset)}, {tail}")

    def local(self, name: str, type_: str = "i64", *, count: int = 1) -> Numbers:
        """Numbers or pointers on the stack, at the address of that name."""
        self.do(f"%{name} = alloca {type_ if count == 1 else f'[{count} x {type_}]'}, align 8")
        return Numbers(self, f"%{name}")

    def prefetch(self, pointer: str) -> None:
        """Prefetches the line at `pointer`, which need not be memory, into L2."""
        self.do(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 2, i32 1)")

    def order(self) -> None:
        """Keeps the code generator from moving loads, stores and prefetches from one side of here to the other."""
        self.do('call void asm sideeffect "", "~{memory}"()')

    # Control ----------------------------------------------------------------------------------------------------

    def label(self, name: str) -> None:
        """Begins the basic block `name`, given with its "%"."""
        self.lines.append(f"{name[1:]}:")
        self._block = name[1:]

    @contextmanager
    def loop(self, low: Value, high: Value) -> Generator[Value]:
        """The body for every i in [low, high), which may be empty."""
        if isinstance(low, int) and isinstance(high, int):
            if high - low == 1:
                yield low
                return
            assert low < high
        head, exit_ = self.name("loop"), self.name("exit")
        if not (isinstance(low, int) and isinstance(high, int)):
            flag = self.compare("slt", low, high)
            self.do(f"br i1 {flag}, label {head}, label {exit_}")
        else:
            self.do(f"br label {head}")
        before = self._block
        self.label(head)
        index, after = self.name("i"), self.name("i")
        at = len(self.lines)
        self.lines.append("")
        yield index
        self.do(f"{after} = add nuw nsw i64 {index}, 1")
        again = self.compare("slt", after, high)
        self.do(f"br i1 {again}, label {head}, label {exit_}")
        self.lines[at] = (
            f"  {index} = phi i64 [ {self.operand(low)}, %{before} ], [ {after}, %{self._block} ]"
        )
        self.label(exit_)

    def total(self, count: int, vector: str, term: Callable[[Value], str]) -> str:
        """The sum of `term(i)`, integers of type `vector`, for every i in [0, count); `count` is not 0."""
        if count == 1:
            return term(0)
        head, exit_, index, sum_ = self.name("sum"), self.name("exit"), self.name("i"), self.name("sum")
        before = self._block
        self.do(f"br label {head}")
        self.label(head)
        at = len(self.lines)
        self.lines.append("")
        after = self.put(f"add {vector} {sum_}, {term(index)}")
        following = self.put(f"add nuw nsw i64 {index}, 1")
        again = self.compare("slt", following, count)
        self.do(f"br i1 {again}, label {head}, label {exit_}")
        self.lines[at] = (
            f"  {index} = phi i64 [ 0, %{before} ], [ {following}, %{self._block} ]\n"
            f"  {sum_} = phi {vector} [ zeroinitializer, %{before} ], [ {after}, %{self._block} ]"
        )
        self.label(exit_)
        return after

    def carried(
        self,
        low: Value,
        high: Value,
        initial: Sequence[tuple[str, str]],
        body: Callable[[Value, list[str]], Sequence[str]],
    ) -> list[str]:
        """What `body(i, values)` makes of values, beginning with `initial`, for every i in [low, high) in turn.

        `initial` has type and value of each. Where the range is empty they stay as they are.
        """
        if isinstance(low, int) and isinstance(high, int) and high - low <= 1:
            return list(body(low, [value for _, value in initial])) if low < high else [v for _, v in initial]
        head, exit_ = self.name("fold"), self.name("exit")
        before = self._block
        may_be_empty = not (isinstance(low, int) and isinstance(high, int))
        if may_be_empty:
            flag = self.compare("slt", low, high)
            self.do(f"br i1 {flag}, label {head}, label {exit_}")
        else:
            self.do(f"br label {head}")
        self.label(head)
        index, after = self.name("i"), self.name("i")
        values = [self.name("c") for _ in initial]
        at = len(self.lines)
        self.lines.append("")
        results = body(index, values)
        self.do(f"{after} = add nuw nsw i64 {index}, 1")
        again = self.compare("slt", after, high)
        self.do(f"br i1 {again}, label {head}, label {exit_}")
        last = self._block
        lines = [f"  {index} = phi i64 [ {self.operand(low)}, %{before} ], [ {after}, %{last} ]"]
        for (type_, begin), value, result in zip(initial, values, results, strict=True):
            lines.append(f"  {value} = phi {type_} [ {begin}, %{before} ], [ {result}, %{last} ]")
        self.lines[at] = "\n".join(lines)
        self.label(exit_)
        if not may_be_empty:
            return list(results)
        return [
            self.put(f"phi {type_} [ {begin}, %{before} ], [ {result}, %{last} ]")
            for (type_, begin), result in zip(initial, results, strict=True)
        ]

    @contextmanager
    def either(self, flag: str) -> Generator[Callable[[], None]]:
        """The code before a call of the yielded function runs if `flag`, the code after it if not."""
        yes, no, after = self.name("yes"), self.name("no"), self.name("after")
        self.do(f"br i1 {flag}, label {yes}, label {no}")
        self.label(yes)

        def otherwise() -> None:
            self.do(f"br label {after}")
            self.label(no)

        yield otherwise
        self.do(f"br label {after}")
        self.label(after)

    @contextmanager
    def when(self, flag: str) -> Generator[None]:
        """The body runs if `flag`."""
        with self.either(flag) as otherwise:
            yield
            otherwise()

    def table(self, values: Sequence[Size]) -> str:
        """A constant array of i64; returns its address."""
        return self._constant(b"".join(index(v).to_bytes(8, "little", signed=True) for v in values), 8)

    def parameters(self, values: Sequence[float], element: str) -> str:
        """A constant array of `element`, float or double; returns its address."""
        code, width = ("<f", 4) if element == "float" else ("<d", 8)
        return self._constant(b"".join(struct.pack(code, v) for v in values), width)

    def pads(self, width: int, value: int) -> str:
        """The address of 16 constant bytes: elements of `width` bytes that hold `value`."""
        return self._constant(value.to_bytes(width, "little") * (16 // width), 16)

    def _constant(self, data: bytes, align: int) -> str:
        """The address of constant bytes; equal ones have one address."""
        text = "".join(f"\\{byte:02X}" for byte in data)
        definition = f'private unnamed_addr constant [{len(data)} x i8] c"{text}", align {align}'
        for k, known in enumerate(self.globals):
            if known.partition(" = ")[2] == definition:
                return f"@table{k}"
        self.globals.append(f"@table{len(self.globals)} = {definition}")
        return f"@table{len(self.globals) - 1}"

    def entry(self, table: str, index: Value) -> str:
        """Entry `index` of a table."""
        return self.put(f"load i64, ptr {self.at(table, self.mul(index, 8))}, align 8")


class Numbers:
    """Numbers of 64 bits, or pointers, in memory: they are read and written by their place."""

    def __init__(self, b: Builder, pointer: str) -> None:
        self.b, self.pointer = b, pointer

    def get(self, place: Value, type_: str = "i64") -> str:
        """The number at `place`."""
        return self.b.put(f"load {type_}, ptr {self._at(place)}, align 8")

    def set(self, place: Value, value: Value, type_: str = "i64") -> None:
        """Writes the number at `place`."""
        self.b.do(f"store {type_} {value}, ptr {self._at(place)}, align 8")

    def _at(self, place: Value) -> str:
        return (
            self.b.put(f"getelementptr i64, ptr {self.pointer}, i64 {place}") if place != 0 else self.pointer
        )


def function_text(result: str, name: str, arguments: str, body: Builder) -> str:
    """An internal function around a body, the memory that it takes from the stack first."""
    allocas = [line for line in body.lines if " = alloca " in line]
    others = [line for line in body.lines if " = alloca " not in line]
    lines = "\n".join([*allocas, *others])
    return f"define internal {result} @{name}({arguments}) nounwind {{\nentry:\n{lines}\n}}"


def shuffle(builder: Builder, element: str, a: str, b: str, size: int, mask: Sequence[int | None]) -> str:
    """Lanes of the `size`-lane vectors a and b; None is a lane nobody reads."""
    if list(mask) == list(range(size)):
        return a
    lanes = ", ".join("i32 poison" if k is None else f"i32 {k}" for k in mask)
    vector = f"<{size} x {element}>"
    return builder.put(f"shufflevector {vector} {a}, {vector} {b}, <{len(mask)} x i32> <{lanes}>")


def spread(builder: Builder, element: str, scalar: str, size: int) -> str:
    """The `size`-lane vector with `scalar` in every lane."""
    vector = f"<{size} x {element}>"
    one = builder.put(f"insertelement {vector} poison, {element} {scalar}, i64 0")
    return shuffle(builder, element, one, "poison", size, [0] * size)


def fenced(builder: Builder, element: str, vectors: Sequence[str], size: int) -> list[str]:
    """The same vectors, opaque to the code generator.

    It tries to merge a shuffle with all shuffles that it sees behind it, which finds nothing in a shuffle network
    and takes two thirds of the time of a compilation; the code is the same.
    """
    bits = size * int(element[1:])
    if not builder.fences or bits < 128:
        return list(vectors)
    type_, floats = f"<{size} x {element}>", f"<{bits // 32} x float>"
    result: list[str] = []
    for vector in vectors:
        if vector != "poison":
            vector = builder.put(f"bitcast {type_} {vector} to {floats}")
            vector = builder.put(f"call {floats} @llvm.arithmetic.fence.v{bits // 32}f32({floats} {vector})")
            vector = builder.put(f"bitcast {floats} {vector} to {type_}")
        result.append(vector)
    return result
