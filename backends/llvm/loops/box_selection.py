"""The selection of boxes of NonMaxSuppression, as machine code: `Selection` of `reference/non_max_suppression`.

Candidates come one after the other. One that is left is selected, and of the boxes beside it, which lie one behind the
other, a vector at a time is dropped. The order of operations is that of the reference, so that the ratios are the same
numbers. Of a box with an area that is no number above 0, all ratios are 0.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from layout_ir.backends.llvm.loops.compiled_loop import LOOP_SIGNATURE
from layout_ir.backends.llvm.machine.machine import Machine, host
from layout_ir.backends.llvm.runtime.jit import Code
from layout_ir.caches import keeps_kernels
from layout_ir.elements.numpy_types import Array

_LEFT_OVER = 64
"""Bytes behind the rows of numbers of boxes, which vectors at their ends read."""


def select_boxes(boxes: Any, candidates: Array, most: int, limit: np.float32) -> Array:
    """Which of the candidates are selected, as `Selection` has it; `boxes` are its `SortedBoxes`."""
    rows = np.empty((5, len(boxes.areas) + _LEFT_OVER // 4), np.float32)
    for row, numbers in zip(
        rows, (boxes.top, boxes.left, boxes.bottom, boxes.right, boxes.areas), strict=True
    ):
        row[: len(numbers)] = numbers
    dropped = np.zeros(len(boxes.areas) + _LEFT_OVER, np.uint8)
    found = np.empty(len(candidates), np.int64)
    arrays = (*rows, boxes.first, boxes.last, np.ascontiguousarray(candidates, np.int64), dropped, found)
    arguments = np.zeros(len(arrays) + 4, np.uint64)
    arguments[: len(arrays)] = [array.ctypes.data for array in arrays]
    arguments[len(arrays) :] = [len(candidates), min(most, len(candidates)), int(limit.view(np.uint32)), 0]
    LOOP_SIGNATURE(_code(host()).address("loops"))(int(arguments.ctypes.data), 0, 0, 1)
    return found[: int(arguments[-1])]


@keeps_kernels
@lru_cache(maxsize=4)
def _code(machine: Machine) -> Code:
    text = _text(machine)
    return Code(text, machine, ("loops",), key=text)


def _text(machine: Machine) -> str:
    lanes = machine.vector // 4
    flags, floats, bytes_ = f"<{lanes} x i1>", f"<{lanes} x float>", f"<{lanes} x i8>"
    numbers = ", ".join(f"i64 {lane}" for lane in range(lanes))

    sides = ("top", "left", "bottom", "right", "areas")

    def pointers() -> str:
        names = (*sides, "first", "last", "candidates", "dropped", "found")
        return "\n".join(
            f"""  %{name}.at = getelementptr i8, ptr %arguments, i64 {8 * k}
  %{name} = load ptr, ptr %{name}.at"""
            for k, name in enumerate(names)
        )

    def splat(name: str, type_: str = "float", vector: str = floats) -> str:
        return f"""  %{name}.one = insertelement {vector} poison, {type_} %{name}, i32 0
  %{name}.all = shufflevector {vector} %{name}.one, {vector} poison, <{lanes} x i32> zeroinitializer"""

    def number(side: str) -> str:
        """The number of the box that is selected."""
        return f"""  %own.{side}.at = getelementptr float, ptr %{side}, i64 %place
  %own.{side} = load float, ptr %own.{side}.at, align 4
{splat(f"own.{side}")}"""

    def near(side: str) -> str:
        """Those of boxes beside it."""
        return f"""  %n.{side}.at = getelementptr float, ptr %{side}, i64 %n
  %n.{side} = load {floats}, ptr %n.{side}.at, align 4"""

    def inner(name: str, low: str, high: str) -> str:
        """The length of a side of the intersection, at least 0."""
        return f"""  %{high}.less = fcmp olt {floats} %n.{high}, %own.{high}.all
  %{high}.end = select {flags} %{high}.less, {floats} %n.{high}, {floats} %own.{high}.all
  %{low}.more = fcmp ogt {floats} %n.{low}, %own.{low}.all
  %{low}.begin = select {flags} %{low}.more, {floats} %n.{low}, {floats} %own.{low}.all
  %{name}.length = fsub {floats} %{high}.end, %{low}.begin
  %{name}.some = fcmp ogt {floats} %{name}.length, zeroinitializer
  %{name} = select {flags} %{name}.some, {floats} %{name}.length, {floats} zeroinitializer"""

    return f"""target triple = "{machine.triple}"
define void @loops(ptr noalias %arguments, ptr %unused, i64 %part, i64 %parts) {machine.attributes} {{
entry:
{pointers()}
  %count.at = getelementptr i8, ptr %arguments, i64 80
  %count = load i64, ptr %count.at
  %most.at = getelementptr i8, ptr %arguments, i64 88
  %most = load i64, ptr %most.at
  %limit.at = getelementptr i8, ptr %arguments, i64 96
  %limit = load float, ptr %limit.at
  %total.at = getelementptr i8, ptr %arguments, i64 104
{splat("limit")}
  br label %look
look:
  %c = phi i64 [ 0, %entry ], [ %c.next, %next ]
  %total = phi i64 [ 0, %entry ], [ %total.next, %next ]
  %more = icmp slt i64 %c, %count
  %wanted = icmp slt i64 %total, %most
  %going = and i1 %more, %wanted
  br i1 %going, label %candidate, label %done
candidate:
  %place.at = getelementptr i64, ptr %candidates, i64 %c
  %place = load i64, ptr %place.at
  %is.dropped.at = getelementptr i8, ptr %dropped, i64 %place
  %is.dropped = load i8, ptr %is.dropped.at
  %is.left = icmp eq i8 %is.dropped, 0
  br i1 %is.left, label %select, label %next
select:
  %to = getelementptr i64, ptr %found, i64 %total
  store i64 %c, ptr %to
  %total.more = add i64 %total, 1
  %begin.at = getelementptr i64, ptr %first, i64 %place
  %begin = load i64, ptr %begin.at
  %end.at = getelementptr i64, ptr %last, i64 %place
  %end = load i64, ptr %end.at
{chr(10).join(map(number, sides))}
  %own.some = fcmp ogt {floats} %own.areas.all, zeroinitializer
{splat("end", "i64", f"<{lanes} x i64>")}
  br label %row
row:
  %n = phi i64 [ %begin, %select ], [ %n.next, %boxes ]
  %left.over = icmp slt i64 %n, %end
  br i1 %left.over, label %boxes, label %next
boxes:
{chr(10).join(map(near, sides))}
{inner("height", "top", "bottom")}
{inner("width", "left", "right")}
  %intersection = fmul {floats} %height, %width
  %sum = fadd {floats} %n.areas, %own.areas.all
  %union = fsub {floats} %sum, %intersection
  %ratio = fdiv {floats} %intersection, %union
  %some.over = fcmp ogt {floats} %intersection, zeroinitializer
  %some.area = fcmp ogt {floats} %n.areas, zeroinitializer
  %some.union = fcmp ogt {floats} %union, zeroinitializer
  %over.0 = and {flags} %some.over, %some.area
  %over.1 = and {flags} %over.0, %some.union
  %over = and {flags} %over.1, %own.some
  %known = select {flags} %over, {floats} %ratio, {floats} zeroinitializer
  %above = fcmp ogt {floats} %known, %limit.all
{splat("n", "i64", f"<{lanes} x i64>")}
  %which = add <{lanes} x i64> %n.all, <{numbers}>
  %inside = icmp slt <{lanes} x i64> %which, %end.all
  %drop = and {flags} %above, %inside
  %drop.bytes = zext {flags} %drop to {bytes_}
  %before.at = getelementptr i8, ptr %dropped, i64 %n
  %before = load {bytes_}, ptr %before.at, align 1
  %after = or {bytes_} %before, %drop.bytes
  store {bytes_} %after, ptr %before.at, align 1
  %n.next = add i64 %n, {lanes}
  br label %row
next:
  %total.next = phi i64 [ %total, %candidate ], [ %total.more, %row ]
  %c.next = add i64 %c, 1
  br label %look
done:
  store i64 %total, ptr %total.at
  ret void
}}
"""
