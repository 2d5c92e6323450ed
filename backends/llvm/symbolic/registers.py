"""Open numbers in LLVM IR: the registers that hold them.

A function whose numbers are open has an argument `ptr %extents`. While it is emitted, an open number prints as a
register, and the instructions that compute it from the extents, each once, are put in front of the function's body.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from layout_ir.backends.llvm.symbolic.guards import deciding
from layout_ir.backends.llvm.symbolic.polynomials import Terms
from layout_ir.backends.llvm.symbolic.symint import Symbols


@contextmanager
def emitting(symbols: Symbols | None) -> Generator[list[str]]:
    """Inside, open numbers print as registers; the list holds the instructions that compute them, afterwards."""
    if symbols is None:
        yield []
        return
    registers = Registers(symbols)
    symbols.register_of = registers.of
    try:
        with deciding("generic"):
            yield registers.lines
    finally:
        symbols.register_of = None


class Registers:
    """Instructions that compute numbers from the extents, each once, for the top of a function."""

    def __init__(self, symbols: Symbols, prefix: str = "%n") -> None:
        self.symbols = symbols
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
            product = self._unknown(monomial[0])
            for k in monomial[1:]:
                other = self._unknown(k)
                product = self._put(("mul", product, other), f"mul i64 {product}, {other}")
            if factor != 1:
                product = self._put(("mul", product, factor), f"mul i64 {product}, {factor}")
            total = self._put(("add", total, product), f"add i64 {total}, {product}") if total else product
        constant = sum(factor for monomial, factor in terms if not monomial)
        if not total:
            return str(constant)
        return self._put(("add", total, constant), f"add i64 {total}, {constant}") if constant else total

    def _unknown(self, k: int) -> str:
        unknown = self.symbols.unknowns[k]
        if isinstance(unknown.of, int):
            at = self._put(("at", unknown.of), f"getelementptr i64, ptr %extents, i64 {unknown.of}")
            return self._put(("extent", unknown.of), f"load i64, ptr {at}, align 8")
        inner, by = self.of(unknown.of), self.of(unknown.by)
        if by.startswith("%"):
            # Where an earlier condition fails, a divisor may be 0; the answer is then of no use, but must not trap.
            positive = self._put(("positive", by), f"icmp sgt i64 {by}, 0")
            by = self._put(("divisor", by), f"select i1 {positive}, i64 {by}, i64 1")
        rest = self._put(("srem", inner, by), f"srem i64 {inner}, {by}")
        # Signed division truncates; floors and rests are those of Python.
        below = self._put(("below", rest), f"ashr i64 {rest}, 63")
        if unknown.kind == "rest":
            more = self._put(("and", below, by), f"and i64 {below}, {by}")
            return self._put(("rest", rest), f"add i64 {rest}, {more}")
        whole = self._put(("sdiv", inner, by), f"sdiv i64 {inner}, {by}")
        return self._put(("floor", whole, rest), f"add i64 {whole}, {below}")

    def met(self) -> str:
        """The flag that says whether all conditions hold."""
        flag = "true"
        for condition in self.symbols.conditions:
            relation = {(True, True): "eq", (True, False): "ne", (False, True): "slt", (False, False): "sge"}
            value = self.of(condition.terms)
            each = self._put(condition, f"icmp {relation[condition.zero, condition.holds]} i64 {value}, 0")
            flag = self._put(("both", flag, each), f"and i1 {flag}, {each}")
        return flag
