"""The k largest or smallest elements of rows and their indices, as machine code.

Those found so far stand in the results, in order. An element that is larger than the last of them takes its place: it
moves forward past all that are smaller. So of equal ones the first stays in front, and most elements of a long row cost
one comparison. Elements are compared by keys, signed integers that are ordered as they are: 0 and -0 have one key, and
what is no number has the largest.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layout_ir.backends.llvm.loops.loop_calls import argument_row
from layout_ir.backends.llvm.machine.machine import Machine, host
from layout_ir.backends.llvm.runtime.jit import Code
from layout_ir.caches import keeps_kernels
from layout_ir.elements.element_types import bits_of
from layout_ir.errors import LayoutError

_TYPES = {
    "f32": "float",
    "f64": "double",
    **{f"{sign}{bits}": f"i{bits}" for sign in ("i", "ui") for bits in (8, 16, 32, 64)},
}
"""Of elements, in LLVM IR."""


class LargestElements:
    """The code for row-major tensors of `shape`: a call has x, the indices (i64) and the elements that are found."""

    threads = 1
    """A call is of one row, mostly, which threads cannot share."""
    has_indices = False

    def __init__(self, shape: tuple[int, ...], axis: int, k: int, dtype: str, *, largest: bool) -> None:
        """Raises LayoutError for element types that there is no code for, and where a row has no k elements."""
        if dtype not in _TYPES or not 1 <= k <= shape[axis] or not prod(shape):
            raise LayoutError(f"no code for {k} elements of {dtype} along dim {axis} of {shape}")
        outer, inner = prod(shape[:axis]), prod(shape[axis + 1 :])
        self.code = _code(_text(outer, shape[axis], inner, k, dtype, largest), host())
        self.address = self.code.address("loops")

    def arguments(self) -> NDArray[np.uint64]:
        """A row of numbers for calls, in which the addresses are to be filled in."""
        return argument_row(3)


@keeps_kernels
@lru_cache(maxsize=256)
def _code(text: str, machine: Machine) -> Code:
    whole = f'target triple = "{machine.triple}"\n{text.replace("ATTRIBUTES", machine.attributes)}'
    return Code(whole, machine, ("loops",), key=whole)


def _text(outer: int, extent: int, inner: int, k: int, dtype: str, largest: bool) -> str:
    element = _TYPES[dtype]
    key, bits = _key_of(dtype, largest)
    return f"""
define void @loops(ptr noalias %arguments, ptr %unused, i64 %part, i64 %parts) ATTRIBUTES {{
entry:
  %xs = load ptr, ptr %arguments
  %at.indices = getelementptr i8, ptr %arguments, i64 8
  %indices = load ptr, ptr %at.indices
  %at.values = getelementptr i8, ptr %arguments, i64 16
  %values = load ptr, ptr %at.values
  br label %row
row:
  %r = phi i64 [ 0, %entry ], [ %r.next, %row.end ]
  %o = udiv i64 %r, {inner}
  %i = urem i64 %r, {inner}
  %xo = mul i64 %o, {extent * inner}
  %x.first = add i64 %xo, %i
  %yo = mul i64 %o, {k * inner}
  %y.first = add i64 %yo, %i
  br label %element
element:
  %e = phi i64 [ 0, %row ], [ %e.next, %next ]
  %count = phi i64 [ 0, %row ], [ %count.next, %next ]
  %limit = phi {bits} [ 0, %row ], [ %limit.next, %next ]
  %xe = mul i64 %e, {inner}
  %xi = add i64 %x.first, %xe
  %xp = getelementptr {element}, ptr %xs, i64 %xi
  %x = load {element}, ptr %xp
{key("x")}
  %is.full = icmp eq i64 %count, {k}
  %is.less = icmp sle {bits} %x.key, %limit
  %is.out = and i1 %is.full, %is.less
  br i1 %is.out, label %next, label %insert
insert:
  %last = select i1 %is.full, i64 {k - 1}, i64 %count
  br label %shift
shift:
  %j = phi i64 [ %last, %insert ], [ %before, %move ]
  %ji = mul i64 %j, {inner}
  %jy = add i64 %y.first, %ji
  %jv = getelementptr {element}, ptr %values, i64 %jy
  %jn = getelementptr i64, ptr %indices, i64 %jy
  %is.first = icmp eq i64 %j, 0
  br i1 %is.first, label %put, label %look
look:
  %before = sub i64 %j, 1
  %by = sub i64 %jy, {inner}
  %bv = getelementptr {element}, ptr %values, i64 %by
  %b = load {element}, ptr %bv
{key("b")}
  %is.smaller = icmp slt {bits} %b.key, %x.key
  br i1 %is.smaller, label %move, label %put
move:
  store {element} %b, ptr %jv
  %bn = getelementptr i64, ptr %indices, i64 %by
  %b.index = load i64, ptr %bn
  store i64 %b.index, ptr %jn
  br label %shift
put:
  store {element} %x, ptr %jv
  store i64 %e, ptr %jn
  %end = add i64 %last, 1
  %li = mul i64 %last, {inner}
  %ly = add i64 %y.first, %li
  %lv = getelementptr {element}, ptr %values, i64 %ly
  %l = load {element}, ptr %lv
{key("l")}
  br label %next
next:
  %count.next = phi i64 [ %count, %element ], [ %end, %put ]
  %limit.next = phi {bits} [ %limit, %element ], [ %l.key, %put ]
  %e.next = add i64 %e, 1
  %more = icmp ult i64 %e.next, {extent}
  br i1 %more, label %element, label %row.end
row.end:
  %r.next = add i64 %r, 1
  %rows = icmp ult i64 %r.next, {outer * inner}
  br i1 %rows, label %row, label %done
done:
  ret void
}}
"""


def _key_of(dtype: str, largest: bool) -> tuple[Any, str]:
    """The code that makes the key `%NAME.key` of an element `%NAME`, and the type of keys."""
    width, element = bits_of(dtype), _TYPES[dtype]
    bits = f"i{width}"
    turn = 0 if largest else -1

    def of_float(name: str) -> str:
        n = f"%{name}"
        return f"""  {n}.plus = fadd {element} {n}, 0.0
  {n}.bits = bitcast {element} {n}.plus to {bits}
  {n}.sign = ashr {bits} {n}.bits, {width - 1}
  {n}.rest = lshr {bits} {n}.sign, 1
  {n}.ordered = xor {bits} {n}.bits, {n}.rest
  {n}.none = fcmp uno {element} {n}, {n}
  {n}.upward = select i1 {n}.none, {bits} {(1 << (width - 1)) - 1}, {bits} {n}.ordered
  {n}.key = xor {bits} {n}.upward, {turn}"""

    def of_integer(name: str) -> str:
        top = -(1 << (width - 1)) if dtype.startswith("ui") else 0
        return f"""  %{name}.upward = xor {bits} %{name}, {top}
  %{name}.key = xor {bits} %{name}.upward, {turn}"""

    return of_float if dtype in ("f32", "f64") else of_integer, bits
