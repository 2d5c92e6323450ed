"""The k largest or smallest elements of rows and their indices, as machine code.

The first k elements of a row become a heap with the last of them, in the order of the result, at its root. An element
that comes before the root takes its place, so most elements of a long row cost one comparison; and at last the heap is
sorted in place. What is compared is a key and, where keys are equal, the index, the smaller of which comes first. Keys
are signed integers that are ordered as the elements are: 0 and -0 have one key, and what is no number has the largest.
The heap stands in the results: keys where values will be, which are read again by their indices.
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
    **dict.fromkeys(("f16", "bf16"), "i16"),  # which not every processor adds or compares
    **{f"{sign}{bits}": f"i{bits}" for sign in ("i", "ui") for bits in (8, 16, 32, 64)},
}
"""The types of elements in LLVM IR."""


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
; Puts a key and its index into the heap of the first %count entries, in which %hole is free, at or below that place.
define internal void @sift(ptr %keys, ptr %indices, i64 %first, i64 %count, {bits} %key, i64 %index) ATTRIBUTES {{
entry:
  br label %descend
descend:
  %hole = phi i64 [ %first, %entry ], [ %child, %move ]
  %twice = shl i64 %hole, 1
  %left = add i64 %twice, 1
  %has.left = icmp ult i64 %left, %count
  br i1 %has.left, label %children, label %put
children:
  %right = add i64 %twice, 2
  %has.right = icmp ult i64 %right, %count
  %right.or.left = select i1 %has.right, i64 %right, i64 %left
{_entry("l", "%left", inner, bits)}
{_entry("r", "%right.or.left", inner, bits)}
{_comes_behind("r", "%r.key", "%r.index", "%l.key", "%l.index", bits)}
  %child = select i1 %r.behind, i64 %right.or.left, i64 %left
  %child.key = select i1 %r.behind, {bits} %r.key, {bits} %l.key
  %child.index = select i1 %r.behind, i64 %r.index, i64 %l.index
{_comes_behind("child", "%child.key", "%child.index", "%key", "%index", bits)}
  br i1 %child.behind, label %move, label %put
move:
{_store("m", "%hole", "%child.key", "%child.index", inner, bits)}
  br label %descend
put:
{_store("p", "%hole", "%key", "%index", inner, bits)}
  ret void
}}

define void @loops(ptr noalias %arguments, ptr %unused, i64 %part, i64 %parts) ATTRIBUTES {{
entry:
  %xs = load ptr, ptr %arguments
  %at.indices = getelementptr i8, ptr %arguments, i64 8
  %all.indices = load ptr, ptr %at.indices
  %at.values = getelementptr i8, ptr %arguments, i64 16
  %all.values = load ptr, ptr %at.values
  br label %row
row:
  %r = phi i64 [ 0, %entry ], [ %r.next, %row.end ]
  %o = udiv i64 %r, {inner}
  %i = urem i64 %r, {inner}
  %xo = mul i64 %o, {extent * inner}
  %x.first = add i64 %xo, %i
  %row.xs = getelementptr {element}, ptr %xs, i64 %x.first
  %yo = mul i64 %o, {k * inner}
  %y.first = add i64 %yo, %i
  %indices = getelementptr i64, ptr %all.indices, i64 %y.first
  %keys = getelementptr {element}, ptr %all.values, i64 %y.first
  br label %take
take:
  %t = phi i64 [ 0, %row ], [ %t.next, %take ]
{_element("t", "%t", inner, element)}
{key("t.x")}
{_store("t", "%t", "%t.x.key", "%t", inner, bits)}
  %t.next = add i64 %t, 1
  %taking = icmp ult i64 %t.next, {k}
  br i1 %taking, label %take, label %make
make:
  %h = phi i64 [ {k // 2}, %take ], [ %h.next, %heap ]
  %making = icmp ne i64 %h, 0
  br i1 %making, label %heap, label %others
heap:
  %h.next = sub i64 %h, 1
{_entry("h", "%h.next", inner, bits)}
  call void @sift(ptr %keys, ptr %indices, i64 %h.next, i64 {k}, {bits} %h.key, i64 %h.index)
  br label %make
others:
  %first.limit = load {bits}, ptr %keys
  br label %look
look:
  %e = phi i64 [ {k}, %others ], [ %e.next, %next ]
  %limit = phi {bits} [ %first.limit, %others ], [ %limit.next, %next ]
  %looking = icmp ult i64 %e, {extent}
  br i1 %looking, label %element, label %sort
element:
{_element("e", "%e", inner, element)}
{key("e.x")}
  %is.before = icmp sgt {bits} %e.x.key, %limit
  br i1 %is.before, label %replace, label %next
replace:
  call void @sift(ptr %keys, ptr %indices, i64 0, i64 {k}, {bits} %e.x.key, i64 %e)
  %new.limit = load {bits}, ptr %keys
  br label %next
next:
  %limit.next = phi {bits} [ %limit, %element ], [ %new.limit, %replace ]
  %e.next = add i64 %e, 1
  br label %look
sort:
  %s = phi i64 [ {k}, %look ], [ %last, %settle ]
  %sorting = icmp ugt i64 %s, 1
  br i1 %sorting, label %settle, label %values
settle:
  %last = sub i64 %s, 1
{_entry("root", "0", inner, bits)}
{_entry("last", "%last", inner, bits)}
{_store("s", "%last", "%root.key", "%root.index", inner, bits)}
  call void @sift(ptr %keys, ptr %indices, i64 0, i64 %last, {bits} %last.key, i64 %last.index)
  br label %sort
values:
  %v = phi i64 [ 0, %sort ], [ %v.next, %values ]
  %v.offset = mul i64 %v, {inner}
  %v.index.at = getelementptr i64, ptr %indices, i64 %v.offset
  %v.index = load i64, ptr %v.index.at
{_element("v", "%v.index", inner, element)}
  %v.at = getelementptr {element}, ptr %keys, i64 %v.offset
  store {element} %v.x, ptr %v.at
  %v.next = add i64 %v, 1
  %giving = icmp ult i64 %v.next, {k}
  br i1 %giving, label %values, label %row.end
row.end:
  %r.next = add i64 %r, 1
  %rows = icmp ult i64 %r.next, {outer * inner}
  br i1 %rows, label %row, label %done
done:
  ret void
}}
"""


def _element(name: str, index: str, inner: int, element: str) -> str:
    """The code that loads `%NAME.x`, the element of the row at an index."""
    return f"""  %{name}.x.offset = mul i64 {index}, {inner}
  %{name}.x.at = getelementptr {element}, ptr %row.xs, i64 %{name}.x.offset
  %{name}.x = load {element}, ptr %{name}.x.at"""


def _entry(name: str, place: str, inner: int, bits: str) -> str:
    """The code that loads `%NAME.key` and `%NAME.index` from a place of the heap."""
    return f"""{_addresses(name, place, inner, bits)}
  %{name}.key = load {bits}, ptr %{name}.key.at
  %{name}.index = load i64, ptr %{name}.index.at"""


def _store(name: str, place: str, key: str, index: str, inner: int, bits: str) -> str:
    """The code that stores a key and its index at a place of the heap."""
    return f"""{_addresses(name, place, inner, bits)}
  store {bits} {key}, ptr %{name}.key.at
  store i64 {index}, ptr %{name}.index.at"""


def _addresses(name: str, place: str, inner: int, bits: str) -> str:
    return f"""  %{name}.offset = mul i64 {place}, {inner}
  %{name}.key.at = getelementptr {bits}, ptr %keys, i64 %{name}.offset
  %{name}.index.at = getelementptr i64, ptr %indices, i64 %{name}.offset"""


def _comes_behind(name: str, key: str, index: str, other_key: str, other_index: str, bits: str) -> str:
    """The code of `%NAME.behind`: whether an entry comes behind another in the result."""
    return f"""  %{name}.less = icmp slt {bits} {key}, {other_key}
  %{name}.equal = icmp eq {bits} {key}, {other_key}
  %{name}.later = icmp ugt i64 {index}, {other_index}
  %{name}.tie = and i1 %{name}.equal, %{name}.later
  %{name}.behind = or i1 %{name}.less, %{name}.tie"""


def _key_of(dtype: str, largest: bool) -> tuple[Any, str]:
    """The code that makes the key `%NAME.key` of an element `%NAME`, and the type of keys."""
    width, element = bits_of(dtype), _TYPES[dtype]
    bits = f"i{width}"
    turn = 0 if largest else -1

    def of_bits(n: str) -> str:
        """The key by the bits of a float, without the sign of 0, and whether it is no number."""
        return f"""  {n}.sign = ashr {bits} {n}.bits, {width - 1}
  {n}.rest = lshr {bits} {n}.sign, 1
  {n}.ordered = xor {bits} {n}.bits, {n}.rest
  {n}.upward = select i1 {n}.none, {bits} {(1 << (width - 1)) - 1}, {bits} {n}.ordered
  {n}.key = xor {bits} {n}.upward, {turn}"""

    def of_float(name: str) -> str:
        n = f"%{name}"
        return f"""  {n}.plus = fadd {element} {n}, 0.0
  {n}.bits = bitcast {element} {n}.plus to {bits}
  {n}.none = fcmp uno {element} {n}, {n}
{of_bits(n)}"""

    def of_half(name: str) -> str:
        n, infinite = f"%{name}", 0x7C00 if dtype == "f16" else 0x7F80
        return f"""  {n}.size = and {bits} {n}, {(1 << (width - 1)) - 1}
  {n}.zero = icmp eq {bits} {n}.size, 0
  {n}.bits = select i1 {n}.zero, {bits} 0, {bits} {n}
  {n}.none = icmp ugt {bits} {n}.size, {infinite}
{of_bits(n)}"""

    def of_integer(name: str) -> str:
        top = -(1 << (width - 1)) if dtype.startswith("ui") else 0
        return f"""  %{name}.upward = xor {bits} %{name}, {top}
  %{name}.key = xor {bits} %{name}.upward, {turn}"""

    if dtype in ("f16", "bf16"):
        return of_half, bits
    return of_float if dtype in ("f32", "f64") else of_integer, bits
