"""Open numbers in LLVM IR: the registers that hold them.

A function whose numbers are open has an argument `ptr %extents`. While it is emitted, an open number prints as a
register, and the instructions that compute it from the extents, each once, are put in front of the function's body.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from layout_ir.backends.llvm.symbolic.guarding import deciding
from layout_ir.backends.llvm.symbolic.polynomials import Terms
from layout_ir.backends.llvm.symbolic.symint import ShapeEnv


@contextmanager
def emitting(shape_env: ShapeEnv | None) -> Generator[list[str]]:
    """Inside, open numbers print as registers; the list holds the instructions that compute them, afterwards."""
    if shape_env is None:
        yield []
        return
    registers = Registers(shape_env)
    shape_env.register_of = registers.of
    try:
        with deciding("generic"):
            yield registers.lines
    finally:
        shape_env.register_of = None


class Registers:
    """Instructions that compute numbers from the extents, each once, for the top of a function."""

    def __init__(self, shape_env: ShapeEnv, prefix: str = "%n") -> None:
        self.shape_env = shape_env
        self.lines: list[str] = []
        self._prefix = prefix
        self._known: dict[object, str] = {}

    def _put(self, key: object, text: str) -> str:
        if key not in self._known:
            self._known[key] = f"{self._prefix}{len(self._known)}"
            self.lines.append(f"  {self._known[key]} = {text}")
        return self._known[key]

    def of(self, terms: Terms) -> str:
        """The register that holds the polynomial, or the number itself where it is constant."""
        total = ""
        for monomial, factor in terms:
            if not monomial:
                continue
            product = self._symbol(monomial[0])
            for k in monomial[1:]:
                other = self._symbol(k)
                product = self._put(("mul", product, other), f"mul i64 {product}, {other}")
            if factor != 1:
                product = self._put(("mul", product, factor), f"mul i64 {product}, {factor}")
            total = self._put(("add", total, product), f"add i64 {total}, {product}") if total else product
        constant = sum(factor for monomial, factor in terms if not monomial)
        if not total:
            return str(constant)
        return self._put(("add", total, constant), f"add i64 {total}, {constant}") if constant else total

    def _symbol(self, k: int) -> str:
        symbol = self.shape_env.symbols[k]
        if isinstance(symbol.of, int):
            at = self._put(("at", symbol.of), f"getelementptr i64, ptr %extents, i64 {symbol.of}")
            return self._put(("extent", symbol.of), f"load i64, ptr {at}, align 8")
        inner, by = self.of(symbol.of), self.of(symbol.by)
        if by.startswith("%"):
            # Where an earlier guard fails, a divisor may be 0; the answer is then of no use, but must not trap.
            positive = self._put(("positive", by), f"icmp sgt i64 {by}, 0")
            by = self._put(("divisor", by), f"select i1 {positive}, i64 {by}, i64 1")
        rest = self._put(("srem", inner, by), f"srem i64 {inner}, {by}")
        # Signed division truncates; floors and rests are those of Python.
        below = self._put(("below", rest), f"ashr i64 {rest}, 63")
        if symbol.kind == "rest":
            more = self._put(("and", below, by), f"and i64 {below}, {by}")
            return self._put(("rest", rest), f"add i64 {rest}, {more}")
        whole = self._put(("sdiv", inner, by), f"sdiv i64 {inner}, {by}")
        return self._put(("floor", whole, rest), f"add i64 {whole}, {below}")

    def guards_hold(self) -> str:
        """The flag that says whether all conditions hold."""
        flag = "true"
        for condition in self.shape_env.guards:
            relation = {(True, True): "eq", (True, False): "ne", (False, True): "slt", (False, False): "sge"}
            value = self.of(condition.terms)
            each = self._put(condition, f"icmp {relation[condition.zero, condition.holds]} i64 {value}, 0")
            flag = self._put(("both", flag, each), f"and i1 {flag}, {each}")
        return flag
