"""Symbolic sizes in LLVM IR: the registers that hold them.

A function for a dynamic shape has an argument `ptr %extents`. The instructions that compute a size from the extents,
each once, stand in front of the function's body, so that every use of the size is a register.
"""

from __future__ import annotations

from layout_ir.symbolic.polynomials import Terms
from layout_ir.symbolic.shape_env import ShapeEnv
from layout_ir.symbolic.symint import Size, SymInt


class SizeRegisters:
    """The registers of the sizes of one plan in one function, and in `lines` the instructions that compute them."""

    def __init__(self, shape_env: ShapeEnv, prefix: str = "%n") -> None:
        """`prefix` begins the names of the registers."""
        self.shape_env = shape_env
        self.lines: list[str] = []
        self._prefix = prefix
        self._known: dict[object, str] = {}

    def operand(self, size: Size) -> str:
        """An i64 operand: the register that holds a symbolic size, or a known size itself."""
        return self._polynomial(size.terms) if isinstance(size, SymInt) else str(size)

    def guards_hold(self) -> str:
        """An i1 operand: whether all guards of the shape environment hold."""
        flag = "true"
        for guard in self.shape_env.guards:
            relation = {(True, True): "eq", (True, False): "ne", (False, True): "slt", (False, False): "sge"}
            value = self._polynomial(guard.terms)
            each = self._put(guard, f"icmp {relation[guard.zero, guard.holds]} i64 {value}, 0")
            flag = self._put(("both", flag, each), f"and i1 {flag}, {each}")
        return flag

    def _put(self, key: object, text: str) -> str:
        """The register of `key`, computed by the instruction `text` where it is not known yet."""
        if key not in self._known:
            self._known[key] = f"{self._prefix}{len(self._known)}"
            self.lines.append(f"  {self._known[key]} = {text}")
        return self._known[key]

    def _polynomial(self, terms: Terms) -> str:
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
        inner, by = self._polynomial(symbol.of), self._polynomial(symbol.by)
        if by.startswith("%"):
            # Where an earlier guard fails, a divisor may be 0; the answer is then of no use, but must not trap.
            positive = self._put(("positive", by), f"icmp sgt i64 {by}, 0")
            by = self._put(("divisor", by), f"select i1 {positive}, i64 {by}, i64 1")
        rest = self._put(("srem", inner, by), f"srem i64 {inner}, {by}")
        # Signed division truncates; floors and remainders are those of Python.
        below = self._put(("below", rest), f"ashr i64 {rest}, 63")
        if symbol.kind == "remainder":
            more = self._put(("and", below, by), f"and i64 {below}, {by}")
            return self._put(("rest", rest), f"add i64 {rest}, {more}")
        whole = self._put(("sdiv", inner, by), f"sdiv i64 {inner}, {by}")
        return self._put(("floor", whole, rest), f"add i64 {whole}, {below}")
